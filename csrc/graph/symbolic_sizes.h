// The integers of a trace that are symbols instead of literals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ftm {

// Example: a program reads k rows of a cache [1,4,n,16], through a view with the strides
// [4*w,w,16,1]. Its symbols are w and k, and the memory that it covers is 3*w+16*k elements.
struct SymbolicSizes {
  struct Symbol {
    int64_t hint; // value in this trace
    int64_t least;
  };
  // A number that is a symbol, or a polynomial of symbols.
  struct Number {
    int64_t index; // of the parameter or call
    std::string argument; // of the call; empty: an extent of the parameter
    int64_t element; // of the argument, if that is a list, or of the extents
    std::string polynomial; // such as "16*s1-16"
  };
  std::vector<Symbol> symbols; // named s0, s1, ...
  std::vector<Number> numbers;
};

} // namespace ftm
