// GLSL that several tests of this folder compile.

#ifndef KCACHE_BACKENDS_VULKAN_TEST_SHADERS_H_
#define KCACHE_BACKENDS_VULKAN_TEST_SHADERS_H_

namespace kcache::backend::vulkan {

// sum[i] = a[i] + scale * b[i] for i < count. The bindings are declared out of order.
inline constexpr char kSaxpy[] = R"(#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 2) writeonly buffer Sum { float sum[]; };
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(push_constant) uniform Parameters { uint count; float scale; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < count) sum[i] = a[i] + scale * b[i];
}
)";

// Every work-item writes 1000 * z + 100 * y + x, with a local size that is chosen at pipeline
// creation.
inline constexpr char kIndices[] = R"(#version 450
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(binding = 0) buffer Out { uint data[]; };
void main() {
  uvec3 id = gl_GlobalInvocationID;
  uvec3 size = gl_NumWorkGroups * gl_WorkGroupSize;
  data[(id.z * size.y + id.y) * size.x + id.x] = 1000u * id.z + 100u * id.y + id.x;
}
)";

// data[i] = data[i] * FACTOR + OFFSET, both specialization constants.
inline constexpr char kSpecialized[] = R"(#version 450
layout(local_size_x = 32) in;
layout(constant_id = 7) const uint FACTOR = 2;
layout(constant_id = 9) const bool NEGATE = false;
layout(binding = 0) buffer Data { int data[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  int value = data[i] * int(FACTOR);
  data[i] = NEGATE ? -value : value;
}
)";

// Adds one to each element: a chain of launches that depend on each other.
inline constexpr char kIncrement[] = R"(#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer Data { uint data[]; };
void main() { data[gl_GlobalInvocationID.x] += 1u; }
)";

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_TEST_SHADERS_H_
