#include "backends/fake/interpreter.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::backend::fake {
namespace {

struct Fault {
  std::string what;
};

class WorkItem {
 public:
  WorkItem(const KernelCode& kernel, const std::vector<double>& constants,
           const std::vector<BoundArgument>& arguments)
      : kernel_(kernel), constants_(constants), arguments_(arguments) {}

  uint64_t i = 0, x = 0, y = 0, z = 0, group = 0, lid = 0;

  // The address of an element, or a fault.
  char* Element(int parameter, uint64_t index) const {
    const uint64_t size = SizeOf(kernel_.parameters[parameter].type);
    const std::span<char> data = arguments_[parameter].data;
    if (index >= data.size() / size) {
      throw Fault{absl::StrCat(kernel_.parameters[parameter].name, "[", index,
                               "] is outside its buffer of ", data.size(), " bytes")};
    }
    return data.data() + index * size;
  }

  template <typename T>
  T Value(const Expression& expression) const {
    switch (expression.kind) {
      case Expression::Kind::kNumber:
        return static_cast<T>(expression.number);
      case Expression::Kind::kConstant:
        return static_cast<T>(constants_[expression.index]);
      case Expression::Kind::kParameter:
        return Load<T>(kernel_.parameters[expression.index].type,
                       arguments_[expression.index].scalar.data());
      case Expression::Kind::kElement:
        return Load<T>(kernel_.parameters[expression.index].type,
                       Element(expression.index, Value<uint64_t>(*expression.left)));
      case Expression::Kind::kWorkItem:
        return static_cast<T>(Id(expression.name));
      case Expression::Kind::kBinary:
        return Apply<T>(expression.name, Value<T>(*expression.left), Value<T>(*expression.right));
    }
    return T();
  }

  void Store(int parameter, char* address, const Expression& value) const {
    switch (kernel_.parameters[parameter].type) {
      case ElementType::kU32:
        return Put(address, Value<uint32_t>(value));
      case ElementType::kU64:
        return Put(address, Value<uint64_t>(value));
      case ElementType::kF32:
        return Put(address, Value<float>(value));
    }
  }

 private:
  template <typename T>
  static T Get(const char* address) {
    // Scalars are not aligned, elements of buffers are.
    if (reinterpret_cast<uintptr_t>(address) % sizeof(T) != 0) {
      T value;
      std::memcpy(&value, address, sizeof(T));
      return value;
    }
    return std::atomic_ref<T>(*reinterpret_cast<T*>(const_cast<char*>(address)))
        .load(std::memory_order_relaxed);
  }

  template <typename T>
  static void Put(char* address, T value) {
    if (reinterpret_cast<uintptr_t>(address) % sizeof(T) != 0) {
      std::memcpy(address, &value, sizeof(T));
      return;
    }
    std::atomic_ref<T>(*reinterpret_cast<T*>(address)).store(value, std::memory_order_relaxed);
  }

  template <typename T>
  static T Load(ElementType type, const char* address) {
    switch (type) {
      case ElementType::kU32:
        return static_cast<T>(Get<uint32_t>(address));
      case ElementType::kU64:
        return static_cast<T>(Get<uint64_t>(address));
      case ElementType::kF32:
        return static_cast<T>(Get<float>(address));
    }
    return T();
  }

  template <typename T>
  static T Apply(char name, T left, T right) {
    switch (name) {
      case '+':
        return left + right;
      case '-':
        return left - right;
      case '*':
        return left * right;
      case '/':
        if constexpr (std::is_integral_v<T>) {
          if (right == 0) throw Fault{"division by zero"};
        }
        return left / right;
      default:
        if constexpr (std::is_integral_v<T>) {
          if (right == 0) throw Fault{"division by zero"};
          return left % right;
        } else {
          return std::fmod(left, right);
        }
    }
  }

  uint64_t Id(char name) const {
    switch (name) {
      case 'i':
        return i;
      case 'x':
        return x;
      case 'y':
        return y;
      case 'z':
        return z;
      case 'g':
        return group;
      default:
        return lid;
    }
  }

  const KernelCode& kernel_;
  const std::vector<double>& constants_;
  const std::vector<BoundArgument>& arguments_;
};

// False: the context is being closed.
bool RunItem(const KernelCode& kernel, const WorkItem& item, const AwaitFunction& await,
             int* line) {
  for (const Statement& statement : kernel.statements) {
    *line = statement.line;
    if (statement.kind == Statement::Kind::kFault) throw Fault{"fault"};
    const uint64_t index = item.Value<uint64_t>(*statement.index);
    char* const element = item.Element(statement.buffer, index);
    if (statement.kind == Statement::Kind::kAssign) {
      item.Store(statement.buffer, element, *statement.value);
      continue;
    }
    Expression read;
    read.kind = Expression::Kind::kElement;
    read.index = statement.buffer;
    read.left = std::make_unique<Expression>();
    read.left->number = static_cast<double>(index);
    if (!await([&] { return item.Value<uint64_t>(read) != 0; })) return false;
  }
  return true;
}

}  // namespace

absl::Status Run(const KernelCode& kernel, const std::vector<double>& constants,
                 const std::vector<BoundArgument>& arguments, const Dispatch& dispatch,
                 const AwaitFunction& await) {
  WorkItem item(kernel, constants, arguments);
  uint64_t bound = ~uint64_t{0};
  if (kernel.bound >= 0) {
    Expression n;
    n.kind = Expression::Kind::kParameter;
    n.index = kernel.bound;
    bound = item.Value<uint64_t>(n);
  }
  const Extent& global = dispatch.global;
  const Extent& local = dispatch.local;
  const uint64_t groups_x = local.x == 0 ? 1 : global.x / local.x;
  int line = 0;
  try {
    for (uint64_t z = 0; z < global.z; ++z) {
      for (uint64_t y = 0; y < global.y; ++y) {
        for (uint64_t x = 0; x < global.x; ++x) {
          item.i = (z * global.y + y) * global.x + x;
          if (item.i >= bound) continue;
          item.x = x + dispatch.offset.x;
          item.y = y + dispatch.offset.y;
          item.z = z + dispatch.offset.z;
          item.group = local.x == 0 ? 0 : y / std::max(local.y, 1u) * groups_x + x / local.x;
          item.lid = local.x == 0 ? x : x % local.x;
          if (!RunItem(kernel, item, await, &line)) return absl::OkStatus();
        }
      }
    }
  } catch (const Fault& fault) {
    return MakeError(v1::KERNEL_FAULT, absl::StrCat("kernel ", kernel.name, ", line ", line,
                                                    ", work-item ", item.i, ": ", fault.what));
  }
  return absl::OkStatus();
}

}  // namespace kcache::backend::fake
