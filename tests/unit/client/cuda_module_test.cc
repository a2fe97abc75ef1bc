// Cubins in an application's own context, with a driver that only counts.
#include "kcache/cuda_module.h"

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/src/cuda_driver.h"
#include "client_fixture.h"
#include "contract/error_reason.h"
#include "contract/mutex.h"

namespace kcache::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The driver has functions and no object, so its world is one for the process; every test makes it
// new.
struct World {
  Mutex mutex;
  thread_local static void* current;
  thread_local static void* pushed_over;  // what the push covered; the helper pushes one deep
  std::set<void*> loaded;
  int loads = 0;
  int unloads = 0;
  int unloads_elsewhere = 0;  // in another context than the module's
  int load_result = 0;
};
thread_local void* World::current = nullptr;
thread_local void* World::pushed_over = nullptr;
World* world = nullptr;
char contexts[2];

CudaDriver CountingDriver() {
  CudaDriver driver;
  driver.get_error_name = [](int, const char** name) {
    *name = "CUDA_ERROR_OF_TEST";
    return 0;
  };
  driver.context_get_current = [](void** context) {
    *context = World::current;
    return 0;
  };
  driver.context_push = [](void* context) {
    World::pushed_over = std::exchange(World::current, context);
    return 0;
  };
  driver.context_pop = [](void** context) {
    *context = std::exchange(World::current, World::pushed_over);
    return 0;
  };
  driver.module_load_data = [](void** module, const void*) {
    MutexLock lock(&world->mutex);
    if (world->load_result != 0) return world->load_result;
    *module = new void*(World::current);
    world->loaded.insert(*module);
    ++world->loads;
    return 0;
  };
  driver.module_unload = [](void* module) {
    MutexLock lock(&world->mutex);
    if (world->loaded.erase(module) == 0) return 1;
    ++world->unloads;
    if (*static_cast<void**>(module) != World::current) ++world->unloads_elsewhere;
    delete static_cast<void**>(module);
    return 0;
  };
  driver.module_get_function = [](void** function, void* module, const char* name) {
    *function = module;
    return std::string(name) == "main" ? 0 : 500;
  };
  return driver;
}

class CudaModuleTest : public ClientTest {
 protected:
  void SetUp() override {
    world = &world_;
    World::current = &contexts[0];
    daemon_->artifact_format = "cubin";
    Connect();
    modules_ = std::make_unique<CudaModules>(client_, &driver_);
  }
  void TearDown() override {
    modules_ = nullptr;
    EXPECT_THAT(world_.loaded, IsEmpty());
    EXPECT_EQ(world_.loads, world_.unloads);
    EXPECT_EQ(world_.unloads_elsewhere, 0);
  }
  std::shared_ptr<const CudaModule> MustAcquire() {
    auto module = modules_->Acquire(program_, kDevice);
    EXPECT_TRUE(module.ok()) << module.status();
    return module.ok() ? *module : nullptr;
  }
  void ClearArtifacts(const std::string& operation) {
    v1::Invalidate clear = Event(operation, v1::INVALIDATE_CLEAR, v1::PHASE_BEFORE);
    clear.clear_context();
    clear.set_needs_ack(false);
    daemon_->Invalidate(clear);
  }

  World world_;
  const CudaDriver driver_ = CountingDriver();
  std::unique_ptr<CudaModules> modules_;
};

TEST_F(CudaModuleTest, LoadedOnceForEachContext) {
  const auto first = MustAcquire();
  EXPECT_EQ(MustAcquire(), first);
  EXPECT_EQ(world_.loads, 1);
  World::current = &contexts[1];
  EXPECT_NE(MustAcquire(), first);
  EXPECT_EQ(world_.loads, 2);
  EXPECT_EQ(modules_->size(), 2U);
}

TEST_F(CudaModuleTest, FunctionsByEntryName) {
  const auto module = MustAcquire();
  const auto function = module->Function("main");
  ASSERT_TRUE(function.ok()) << function.status();
  EXPECT_NE(*function, nullptr);
  const auto missing = module->Function("other");
  EXPECT_EQ(ReasonOf(missing.status()), v1::UNKNOWN_ENTRY);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("main"));
}

TEST_F(CudaModuleTest, ARevocationDropsTheMemoAndNotWhatIsInUse) {
  auto in_use = MustAcquire();
  ClearArtifacts("a");
  EXPECT_EQ(modules_->size(), 0U);
  EXPECT_EQ(world_.unloads, 0) << "the application still uses it";
  EXPECT_TRUE(in_use->Function("main").ok());
  EXPECT_THAT(daemon_->acks(), IsEmpty()) << "it never delays a teardown";
  const auto anew = MustAcquire();
  EXPECT_NE(anew, in_use);
  EXPECT_EQ(world_.loads, 2);
  EXPECT_EQ(world_.unloads, 0);
  in_use = nullptr;
  EXPECT_EQ(world_.unloads, 1) << "with the last use";
}

TEST_F(CudaModuleTest, AListenerUnloadsNothing) {
  MustAcquire();
  ClearArtifacts("a");
  EXPECT_EQ(world_.unloads, 0) << "an unload in a listener could wait for the device";
  MustAcquire();
  EXPECT_EQ(world_.unloads, 1) << "the next acquire, on the application's thread, does it";
}

TEST_F(CudaModuleTest, ModulesOutliveTheirMemo) {
  auto module = MustAcquire();
  modules_ = nullptr;
  EXPECT_TRUE(module->Function("main").ok());
  EXPECT_EQ(world_.unloads, 0);
  module = nullptr;
  EXPECT_EQ(world_.unloads, 1);
}

TEST_F(CudaModuleTest, TheLastShareUnloadsInTheModulesContext) {
  auto module = MustAcquire();
  modules_ = nullptr;
  World::current = &contexts[1];
  module = nullptr;
  EXPECT_EQ(world_.unloads, 1);  // TearDown checks the context
}

TEST_F(CudaModuleTest, FailuresAreTypedAndMemoizeNothing) {
  World::current = nullptr;
  EXPECT_EQ(modules_->Acquire(program_, kDevice).status().code(),
            absl::StatusCode::kFailedPrecondition);
  World::current = &contexts[0];
  world_.load_result = 209;
  const auto refused = modules_->Acquire(program_, kDevice);
  EXPECT_EQ(ReasonOf(refused.status()), v1::COMPILE_FAILED);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("CUDA_ERROR_OF_TEST"));
  world_.load_result = 0;
  daemon_->artifact_format = "spirv";
  EXPECT_EQ(ReasonOf(modules_->Acquire(MakeProgram("other"), kDevice).status()), v1::BAD_REQUEST);
  EXPECT_EQ(modules_->size(), 0U);
  daemon_->artifact_format = "cubin";
  EXPECT_NE(MustAcquire(), nullptr);
}

TEST_F(CudaModuleTest, ThreadsThatLoadAtOnceShareOneInTheEnd) {
  std::vector<std::shared_ptr<const CudaModule>> acquired(4);
  std::vector<std::thread> threads;
  for (auto& module : acquired) {
    threads.emplace_back([this, &module] {
      World::current = &contexts[0];
      module = MustAcquire();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(modules_->size(), 1U);
  for (const auto& module : acquired) EXPECT_EQ(module, acquired[0]);
}

TEST(CudaDriver, WithoutADriverTheReasonIsSaid) {
  const auto driver = LoadCudaDriver();
  EXPECT_TRUE(driver.ok() || driver.status().message() == "libcuda.so.1 not found")
      << driver.status();
}

}  // namespace
}  // namespace kcache::internal
