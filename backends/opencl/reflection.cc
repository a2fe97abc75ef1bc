#include "backends/opencl/reflection.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "backends/opencl/argument_types.h"
#include "backends/opencl/cl_info.h"
#include "backends/opencl/cl_object.h"
#include "backends/opencl/cl_status.h"

namespace kcache::backend::opencl {
namespace {

std::string ArgumentText(cl_kernel kernel, cl_uint index, cl_kernel_arg_info name) {
  return InfoText([&](size_t size, void* value, size_t* returned) {
    return clGetKernelArgInfo(kernel, index, name, size, value, returned);
  });
}

template <typename T>
T WorkGroupValue(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name) {
  T value{};
  if (clGetKernelWorkGroupInfo(kernel, device, name, sizeof(value), &value, nullptr) !=
      CL_SUCCESS) {
    return T{};
  }
  return value;
}

// The size that clSetKernelArg takes for this by-value argument; 0 when the driver takes any.
uint64_t AcceptedBytes(cl_kernel kernel, cl_uint index, cl_device_id device) {
  const size_t limit =
      std::max<size_t>(DeviceValue<size_t>(device, CL_DEVICE_MAX_PARAMETER_SIZE), 1024);
  const std::vector<char> zeros(limit + 1);
  uint64_t accepted = 0;
  bool refused = false;
  for (size_t bytes = 1; bytes <= limit; ++bytes) {
    const cl_int error = clSetKernelArg(kernel, index, bytes, zeros.data());
    if (error == CL_SUCCESS) {
      // A driver that takes two sizes does not compare them with the argument's.
      if (accepted != 0) return 0;
      accepted = bytes;
    } else {
      refused = true;
    }
  }
  return refused ? accepted : 0;
}

v1::ArgumentInfo ReflectArgument(cl_kernel kernel, cl_uint index, cl_device_id device) {
  v1::ArgumentInfo info;
  cl_kernel_arg_address_qualifier address = CL_KERNEL_ARG_ADDRESS_PRIVATE;
  if (clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(address), &address,
                         nullptr) != CL_SUCCESS) {
    return info;
  }
  cl_kernel_arg_type_qualifier qualifier = CL_KERNEL_ARG_TYPE_NONE;
  clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof(qualifier), &qualifier,
                     nullptr);
  cl_kernel_arg_access_qualifier access = CL_KERNEL_ARG_ACCESS_NONE;
  clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof(access), &access,
                     nullptr);
  info.set_name(ArgumentText(kernel, index, CL_KERNEL_ARG_NAME));
  info.set_type_name(ArgumentText(kernel, index, CL_KERNEL_ARG_TYPE_NAME));

  if ((qualifier & CL_KERNEL_ARG_TYPE_PIPE) != 0) return info;  // a kind that kcache does not pass
  if (IsSamplerType(info.type_name())) {
    info.set_kind(v1::ARGUMENT_SAMPLER);
  } else if (IsImageType(info.type_name()) || access != CL_KERNEL_ARG_ACCESS_NONE) {
    // Only images and pipes have an access qualifier, whatever a typedef calls them.
    info.set_kind(v1::ARGUMENT_IMAGE);
  } else if (address == CL_KERNEL_ARG_ADDRESS_LOCAL) {
    info.set_kind(v1::ARGUMENT_LOCAL_MEMORY);
  } else if (address == CL_KERNEL_ARG_ADDRESS_GLOBAL || address == CL_KERNEL_ARG_ADDRESS_CONSTANT) {
    info.set_kind(v1::ARGUMENT_BUFFER);
  } else {
    info.set_kind(v1::ARGUMENT_SCALAR);
    const std::optional<uint64_t> builtin = BuiltinTypeBytes(info.type_name());
    info.set_bytes(builtin ? *builtin : AcceptedBytes(kernel, index, device));
  }
  return info;
}

}  // namespace

absl::StatusOr<v1::KernelInfo> ReflectKernel(cl_kernel kernel, cl_device_id device) {
  v1::KernelInfo info;
  info.set_entry(InfoText([&](size_t size, void* value, size_t* returned) {
    return clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, size, value, returned);
  }));
  info.set_lowered_name(info.entry());
  cl_uint arguments = 0;
  const cl_int error =
      clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(arguments), &arguments, nullptr);
  if (error != CL_SUCCESS) return FromCl(error, "clGetKernelInfo(" + info.entry() + ")");
  info.set_arguments_known(true);
  for (cl_uint index = 0; index < arguments; ++index) {
    *info.add_arguments() = ReflectArgument(kernel, index, device);
  }
  const auto required =
      WorkGroupValue<std::array<size_t, 3>>(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE);
  info.mutable_required_local_size()->set_x(static_cast<uint32_t>(required[0]));
  info.mutable_required_local_size()->set_y(static_cast<uint32_t>(required[1]));
  info.mutable_required_local_size()->set_z(static_cast<uint32_t>(required[2]));
  info.set_local_memory_bytes(WorkGroupValue<cl_ulong>(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE));
  info.set_private_memory_bytes(
      WorkGroupValue<cl_ulong>(kernel, device, CL_KERNEL_PRIVATE_MEM_SIZE));
  // A kernel of a fixed size was compiled for it: NVIDIA's driver answers 256 for larger ones, too.
  info.set_max_local_size(static_cast<uint32_t>(
      std::max(WorkGroupValue<size_t>(kernel, device, CL_KERNEL_WORK_GROUP_SIZE),
               required[0] * required[1] * required[2])));
  return info;
}

absl::StatusOr<std::vector<v1::KernelInfo>> ReflectProgram(cl_program program,
                                                           cl_device_id device) {
  cl_uint count = 0;
  cl_int error = clCreateKernelsInProgram(program, 0, nullptr, &count);
  if (error != CL_SUCCESS) return FromCl(error, "clCreateKernelsInProgram");
  std::vector<cl_kernel> raw(count);
  if (count > 0) error = clCreateKernelsInProgram(program, count, raw.data(), nullptr);
  if (error != CL_SUCCESS) return FromCl(error, "clCreateKernelsInProgram");
  std::vector<ClKernel> kernels;
  for (cl_kernel kernel : raw) kernels.emplace_back(kernel);

  std::vector<v1::KernelInfo> infos;
  for (const ClKernel& kernel : kernels) {
    absl::StatusOr<v1::KernelInfo> info = ReflectKernel(kernel.get(), device);
    if (!info.ok()) return info.status();
    infos.push_back(*std::move(info));
  }
  std::sort(infos.begin(), infos.end(),
            [](const auto& a, const auto& b) { return a.entry() < b.entry(); });
  return infos;
}

v1::Dim3 LocalSizeHint(cl_kernel kernel) {
  const std::string attributes = InfoText([&](size_t size, void* value, size_t* returned) {
    return clGetKernelInfo(kernel, CL_KERNEL_ATTRIBUTES, size, value, returned);
  });
  v1::Dim3 hint;
  constexpr std::string_view kHint = "work_group_size_hint(";
  const size_t at = attributes.find(kHint);
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
  if (at != std::string::npos &&
      std::sscanf(attributes.c_str() + at + kHint.size(), "%u , %u , %u", &x, &y, &z) == 3) {
    hint.set_x(x);
    hint.set_y(y);
    hint.set_z(z);
  }
  return hint;
}

}  // namespace kcache::backend::opencl
