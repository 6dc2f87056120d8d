"""Programs of autograd and network layers that observe the same on every device."""

import torch

from recorder.eager_program import iota, program


@program
def autograd_through_views(put):
    x = put(iota(4, 4)).requires_grad_()
    y = x[1:3].t().reshape(-1) * x.diagonal().sum()
    (y.sum() + x.expand(2, 4, 4).mean()).backward()
    return [x.grad, x.grad.stride()]


@program
def non_contiguous_gradients(put):
    x = put(iota(3, 4)).requires_grad_()
    (x.t() * put(iota(4, 3)).t().t()).backward(put(iota(3, 4)).t())
    return [x.grad, x.grad.stride()]


@program
def in_place_on_autograd_views(put):
    x = put(iota(4)).requires_grad_()
    y = x * 2
    y[1:3].mul_(y[2:4].detach().clone())
    y.sum().backward()
    return [y.detach(), x.grad]


@program
def hooks_run(put):
    seen = []
    x = put(iota(3)).requires_grad_()
    x.register_hook(lambda grad: seen.append(grad.sum().item()) or grad * 2)
    (x * x).sum().backward()
    return [x.grad, seen]


@program
def batch_norm_statistics(put):
    layer = torch.nn.BatchNorm2d(3)
    device = put(torch.zeros(())).device
    layer.to(device)
    x = put(torch.sin(iota(4, 3, 2, 2))).requires_grad_()
    y = layer(x)
    # y's own square would have a gradient of zero: noise
    (y * put(torch.cos(iota(4, 3, 2, 2)))).sum().backward()
    layer.eval()
    return [
        y.detach(),
        layer.running_mean,
        layer.running_var,
        layer.num_batches_tracked,
        x.grad,
        layer(x).detach(),
    ]


@program
def batch_norm_into_given_tensors(put):
    x, weight, bias = put(torch.sin(iota(4, 3))), put(iota(3)), put(iota(3))
    seen = []
    for training in (True, False):
        for op in (
            torch.ops.aten.native_batch_norm.out,
            torch.ops.aten._native_batch_norm_legit.out,
        ):
            mean, var = put(torch.zeros(3)), put(torch.ones(3))
            out = [put(torch.zeros(0)), put(torch.zeros(0)), put(torch.zeros(0))]
            op(
                x,
                weight,
                bias,
                mean,
                var,
                training,
                0.1,
                1e-5,
                out=out[0],
                save_mean=out[1],
                save_invstd=out[2],
            )
            seen += [*out, mean, var]
    return seen


@program
def recurrent_cells(put):
    seen = []
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        torch.manual_seed(3)
        layer = kind(3, 4, num_layers=2)
        x = put(torch.sin(iota(5, 2, 3))).requires_grad_()
        layer.to(x.device)
        y, _ = layer(x)
        y.square().sum().backward()
        seen += [y.detach(), x.grad, *(p.grad for p in layer.parameters())]
    return seen


@program
def evaluation_of_batch_norm_has_gradients(put):
    x = put(torch.sin(iota(4, 3))).requires_grad_()
    layer = torch.nn.BatchNorm1d(3).to(x.device).eval()
    layer(x).square().sum().backward()
    return [x.grad, layer.weight.grad, layer.bias.grad]


@program
def undefined_results(put):
    x = put(torch.sin(iota(2, 3, 8, 8)))
    layer = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
    with torch.no_grad():
        layer.weight.copy_(torch.cos(iota(4, 3, 3, 3)))
        layer.bias.zero_()
    layer.to(x.device)
    layer(x).sum().backward()
    return [layer.weight.grad, layer.bias.grad, x.grad]
