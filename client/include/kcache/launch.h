// How a kernel is launched: extents and arguments.
//
// Plain values. An Argument refers to what it was made from, which must outlive the Launch call and
// no longer: values and push constants are copied before Launch returns.

#ifndef KCACHE_LAUNCH_H_
#define KCACHE_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace kcache {

class Buffer;
class BufferView;
class Image;

enum class SamplerAddressing : uint8_t {
  kNone = 0,
  kClampToEdge = 1,
  kClamp = 2,
  kRepeat = 3,
  kMirroredRepeat = 4,
};

// An OpenCL sampler argument, by value.
struct Sampler {
  bool normalized_coordinates = false;
  SamplerAddressing addressing = SamplerAddressing::kNone;
  bool linear = false;  // else nearest
};

// An extent in three dimensions. Default: all zero, "not given". Dim3(n) is n × 1 × 1.
struct Dim3 {
  uint32_t x = 0, y = 0, z = 0;

  constexpr Dim3() = default;
  constexpr Dim3(uint32_t x, uint32_t y = 1, uint32_t z = 1)  // NOLINT(google-explicit-constructor)
      : x(x), y(y), z(z) {}

  constexpr bool given() const { return (x | y | z) != 0; }
  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

// Give `grid` or `global`, not both. Whatever is wrong with them is an INVALID_LAUNCH.
struct LaunchConfig {
  Dim3 grid;    // work-groups (blocks)
  Dim3 local;   // work-items (threads) a group; not given: the driver picks, with `global` only
  Dim3 global;  // work-items (OpenCL's global size)
  Dim3 global_offset;                         // OpenCL's global work offset
  uint32_t dynamic_local_bytes = 0;           // CUDA and HIP dynamic shared memory
  // Vulkan: the whole block, instead of the scalar arguments that stand for its members.
  std::span<const std::byte> push_constants;
  uint32_t repeat = 1;                        // the same launch this many times in a row
  uint32_t dimensions =
      0;  // 1 … 3, what get_work_dim() says; 0: trailing extents of 1 do not count

  static LaunchConfig Grid(Dim3 grid, Dim3 local) {
    LaunchConfig config;
    config.grid = grid;
    config.local = local;
    return config;
  }
  static LaunchConfig Global(Dim3 global, Dim3 local = {}) {
    LaunchConfig config;
    config.global = global;
    config.local = local;
    return config;
  }
};

// An OpenCL __local argument: only its size.
struct LocalMemory {
  uint64_t bytes = 0;
};

// One kernel argument: a trivially copyable value (not a pointer), a Buffer, a BufferView, or
// LocalMemory, an Image or a Sampler. Usually made implicitly by Kernel::Launch.
class Argument {
 public:
  enum class Kind : uint8_t { kScalar, kBuffer, kView, kLocalMemory, kImage, kSampler };

  Argument(const Buffer& buffer)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kBuffer), data_(&buffer) {}
  Argument(const BufferView& view)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kView), data_(&view) {}
  Argument(const Image& image)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kImage), data_(&image) {}
  Argument(const Sampler& sampler)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kSampler), data_(&sampler) {}
  Argument(LocalMemory memory)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kLocalMemory), bytes_(memory.bytes) {}

  template <class T>
  requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_array_v<T> &&
           !std::is_same_v<T, std::nullptr_t> && !std::is_same_v<T, LocalMemory> &&
           !std::is_same_v<T, Sampler> && !std::is_same_v<T, Argument>)
      Argument(const T& value)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kScalar), data_(&value), bytes_(sizeof(T)) {}

  // A value whose type the compiler does not know.
  static Argument Bytes(std::span<const std::byte> value) {
    return Argument(Kind::kScalar, value.data(), value.size());
  }

  Kind kind() const { return kind_; }
  const void* data() const { return data_; }  // the value, Buffer, BufferView, Image or Sampler
  uint64_t bytes() const { return bytes_; }   // of the value or the local memory

 private:
  Argument(Kind kind, const void* data, uint64_t bytes) : kind_(kind), data_(data), bytes_(bytes) {}

  Kind kind_;
  const void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace kcache

#endif  // KCACHE_LAUNCH_H_
