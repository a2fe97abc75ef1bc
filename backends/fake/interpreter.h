// Runs one launch of a kernel of the fake's language.
//
// Threads: any; buffers that several queues touch are read and written element by element, atomically, as
// devices do.

#ifndef KCACHE_BACKENDS_FAKE_INTERPRETER_H_
#define KCACHE_BACKENDS_FAKE_INTERPRETER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/fake/language.h"
#include "backends/sdk/driver.h"

namespace kcache::backend::fake {

// An argument as it is bound when the launch is enqueued.
struct BoundArgument {
  std::string scalar;    // by value
  std::span<char> data;  // buffer
};

struct Dispatch {
  Extent local;
  Extent global;
  Extent offset{0, 0, 0};
};

// `await` is called with a condition and returns when it holds. False: the context is being closed.
using AwaitFunction = std::function<bool(const std::function<bool()>&)>;

// KERNEL_FAULT naming the line and the element.
absl::Status Run(const KernelCode& kernel, const std::vector<double>& constants,
                 const std::vector<BoundArgument>& arguments, const Dispatch& dispatch,
                 const AwaitFunction& await);

}  // namespace kcache::backend::fake

#endif  // KCACHE_BACKENDS_FAKE_INTERPRETER_H_
