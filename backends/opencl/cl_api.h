// The OpenCL headers, with the version this backend is written against: 3.0 entry points are used
// only where the device reports them, everything else is OpenCL 1.2.

#ifndef KCACHE_BACKENDS_OPENCL_CL_API_H_
#define KCACHE_BACKENDS_OPENCL_CL_API_H_

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <CL/cl_ext.h>

#endif  // KCACHE_BACKENDS_OPENCL_CL_API_H_
