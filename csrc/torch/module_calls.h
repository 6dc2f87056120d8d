// Follows the calls of torch.nn.Module, so that recorded calls know their module.
#pragma once

namespace ftm {

// While this is on, each call of a module pushes its path (graph/source_location.h). A path is that
// of `named_modules` of the outermost module, such as "layer3.0.conv2"; the outermost module has
// its class's name. Needs the GIL.
//
// PyTorch's global hooks would cost more, and code of torch.compile depends on them.
void follow_modules(bool on);

} // namespace ftm
