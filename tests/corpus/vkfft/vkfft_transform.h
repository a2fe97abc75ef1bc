// VkFFT's application with everything it holds, over one of the stand-ins. VKFFT_BACKEND, a
// constant of the program, says which API VkFFT speaks here.
//
// What the APIs differ in:
//
//   class Api {
//    public:
//     using Memory = …;                             // what VkFFT's configuration has as a buffer
//     explicit Api(const Place& place);
//     Memory Allocate(size_t bytes);                // null: failure() says why
//     void Release(Memory memory);
//     absl::Status Write(Memory memory, const void* data, size_t bytes);
//     absl::Status Read(Memory memory, void* data, size_t bytes);
//     void Configure(VkFFTConfiguration* configuration);
//     VkFFTResult Append(VkFFTApplication* application, int direction, Memory* memory,
//                        uint64_t offset);              // in bytes
//     const absl::Status& failure() const;          // the first thing that kcache refused
//     const Counts& counts() const;
//   };

#ifndef KCACHE_TESTS_CORPUS_VKFFT_VKFFT_TRANSFORM_H_
#define KCACHE_TESTS_CORPUS_VKFFT_VKFFT_TRANSFORM_H_

#include <vkFFT.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/corpus/vkfft/place.h"
#include "tests/corpus/vkfft/transform.h"

namespace kcache::corpus {

template <class Api>
class VkfftTransform : public Transform {
 public:
  explicit VkfftTransform(const Place& place) : api_(place) {}
  ~VkfftTransform() override {
    if (made_) deleteVkFFT(&application_);
    if (memory_ != nullptr) api_.Release(memory_);
  }

  absl::Status Make(const Plan& plan) override {
    if (!api_.failure().ok()) return api_.failure();
    double_precision_ = plan.double_precision;
    offset_ = plan.offset_at_launch ? plan.values() : 0;
    bytes_ = (offset_ + plan.values()) * ValueBytes();
    memory_ = api_.Allocate(bytes_);
    if (memory_ == nullptr) return api_.failure();
    VkFFTConfiguration configuration = {};
    api_.Configure(&configuration);
    configuration.FFTdim = plan.y > 1 ? 2 : 1;
    configuration.size[0] = plan.x;
    configuration.size[1] = plan.y;
    configuration.numberBatches = plan.batches;
    configuration.normalize = 1;
    configuration.doublePrecision = plan.double_precision;
    configuration.performR2C = plan.real;
    configuration.specifyOffsetsAtLaunch = plan.offset_at_launch;
    // The buffer comes with each launch: given here, VkFFT writes Vulkan's descriptors before there
    // are the buffers that Bluestein's algorithm takes.
    configuration.bufferSize = &bytes_;
    absl::Status status = Say(initializeVkFFT(&application_, configuration), "making the plan");
    made_ = status.ok();
    return status;
  }

  absl::Status Run(Direction direction, const std::vector<Value>& in,
                   std::vector<Value>* out) override {
    return double_precision_ ? RunAs<double>(direction, in, out) : RunAs<float>(direction, in, out);
  }

  Counts counts() const override { return api_.counts(); }

 private:
  uint64_t ValueBytes() const {
    return double_precision_ ? sizeof(std::complex<double>) : sizeof(std::complex<float>);
  }

  // `Part`: of a complex value, as the device has it.
  template <class Part>
  absl::Status RunAs(Direction direction, const std::vector<Value>& in, std::vector<Value>* out) {
    // What is before the offset has to stay as it is.
    const std::complex<Part> before(1234, -4321);
    std::vector<std::complex<Part>> values(offset_, before);
    values.insert(values.end(), in.begin(), in.end());
    absl::Status status = api_.Write(memory_, values.data(), bytes_);
    if (!status.ok()) return status;
    status = Say(
        api_.Append(&application_, static_cast<int>(direction), &memory_, offset_ * ValueBytes()),
        "running the plan");
    if (!status.ok()) return status;
    values.assign(values.size(), {NAN, NAN});
    status = api_.Read(memory_, values.data(), bytes_);
    if (!status.ok()) return status;
    const auto start = values.begin() + static_cast<ptrdiff_t>(offset_);
    if (std::count(values.begin(), start, before) != start - values.begin()) {
      return absl::DataLossError("something was written before the offset");
    }
    out->assign(start, values.end());
    return absl::OkStatus();
  }

  // VkFFT's own errors are numbers; what kcache refused says more.
  absl::Status Say(VkFFTResult result, const char* doing) {
    if (!api_.failure().ok()) return api_.failure();
    if (result == VKFFT_SUCCESS) return absl::OkStatus();
    return absl::InternalError("VkFFT's error " + std::to_string(result) + " while " + doing);
  }

  Api api_;
  VkFFTApplication application_ = {};
  bool made_ = false;
  bool double_precision_ = false;
  typename Api::Memory memory_ = nullptr;
  uint64_t offset_ = 0;  // in values
  uint64_t bytes_ = 0;   // of the whole buffer
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_VKFFT_TRANSFORM_H_
