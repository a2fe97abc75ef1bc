#include "backends/cuda/cuda_family.h"
#include "backends/sdk/driver.h"

int main(int argc, char** argv) {
  return kcache::backend::BackendMain(argc, argv, kcache::backend::cuda::MakeCudaFamily());
}
