// kcache-backend-fake: a scriptable device, and the template of a port.

#include <memory>

#include "backends/fake/family.h"
#include "backends/sdk/driver.h"

int main(int argc, char** argv) {
  return kcache::backend::BackendMain(argc, argv,
                                      std::make_unique<kcache::backend::fake::FakeFamily>());
}
