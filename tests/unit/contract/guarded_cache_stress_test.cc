// Many threads on one cache. What must hold whatever the interleaving: a key never changes its
// value while it is cached, nothing is destroyed twice, destroyed + retained = built, nothing that
// was built before a clear or destroy is served after it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "contract/find_or_build.h"
#include "contract/guarded_cache.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

constexpr int kThreads = 8;

// A built thing that knows whether it has been given back.
struct Object {
  int key = 0;
  uint64_t serial = 0;
  std::atomic<int> destroyed{0};
};
using ObjectPtr = std::shared_ptr<Object>;
using Cache = GuardedCache<int, ObjectPtr>;

class GuardedCacheStress : public ::testing::Test {
 protected:
  absl::StatusOr<ObjectPtr> Get(int key, const DeviceName& device) {
    return FindOrBuild<int, ObjectPtr>(&cache_, key, device, [&]() -> absl::StatusOr<ObjectPtr> {
      auto object = std::make_shared<Object>();
      object->key = key;
      object->serial = ++built_;
      return object;
    });
  }

  static void Run(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }

  void ExpectBalanced(uint64_t retained) {
    const Cache::Statistics statistics = cache_.statistics();
    EXPECT_EQ(statistics.built, built_);
    EXPECT_EQ(statistics.destroyed, destroyed_);
    EXPECT_EQ(statistics.retained, retained);
    EXPECT_EQ(statistics.destroyed + statistics.retained, statistics.built);
  }

  std::atomic<uint64_t> built_{0};
  std::atomic<uint64_t> destroyed_{0};
  Cache cache_{{.name = "objects"}, [this](const int& key, const ObjectPtr& object) {
                 EXPECT_EQ(object->key, key);
                 EXPECT_EQ(object->destroyed.fetch_add(1), 0) << "destroyed twice";
                 ++destroyed_;
                 return absl::OkStatus();
               }};
};

TEST_F(GuardedCacheStress, EightThreadsFourThousandOperationsASharedKeyKeepsItsValue) {
  constexpr int kOperations = 4000;
  constexpr int kKeys = 37;
  const DeviceName device{"CUDA", 0};
  std::vector<std::atomic<uint64_t>> serials(kKeys);
  Run([&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < kOperations; ++i) {
      const int key = static_cast<int>(random() % kKeys);
      const auto object = Get(key, device);
      ASSERT_TRUE(object.ok()) << object.status();
      ASSERT_EQ((*object)->key, key);
      uint64_t none = 0;
      auto& serial = serials[static_cast<size_t>(key)];
      if (!serial.compare_exchange_strong(none, (*object)->serial)) {
        ASSERT_EQ(none, (*object)->serial) << "key " << key << " changed its value";
      }
    }
  });
  EXPECT_EQ(built_, static_cast<uint64_t>(kKeys)) << "single flight: one build a key";
  ExpectBalanced(kKeys);
}

TEST_F(GuardedCacheStress, ConcurrentClearsEndEmpty) {
  const DeviceName device{"CUDA", 0};
  Run([&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < 1000; ++i) {
      if (thread == 0) {
        ASSERT_TRUE(cache_.Clear().ok());
        continue;
      }
      const auto object = Get(static_cast<int>(random() % 16), device);
      // A clear may overtake the three retries; nothing else may fail.
      if (!object.ok()) {
        ASSERT_EQ(ReasonOf(object.status()), v1::CLEARED) << object.status();
      }
    }
  });
  EXPECT_TRUE(cache_.Clear().ok());
  EXPECT_EQ(cache_.size(), 0u);
  ExpectBalanced(0);
}

TEST_F(GuardedCacheStress, ConcurrentEvictsLeaveOtherDevicesAlone) {
  const DeviceName victim{"CUDA/PTX", 0};
  const DeviceName bystander{"HIP", 0};
  Run([&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < 1000; ++i) {
      const int key = static_cast<int>(random() % 16);
      if (thread == 0) {
        ASSERT_TRUE(cache_.EvictDevice("CUDA", 0).ok());
      } else if (thread % 2 == 0) {
        const auto object = Get(key, victim);
        if (!object.ok()) {
          ASSERT_EQ(ReasonOf(object.status()), v1::DEVICE_DESTROYED) << object.status();
        }
      } else {
        const auto object = Get(key + 100, bystander);
        ASSERT_TRUE(object.ok()) << object.status();
        ASSERT_EQ((*object)->destroyed, 0);
      }
    }
  });
  EXPECT_TRUE(cache_.EvictDevice("CUDA", 0).ok());
  EXPECT_EQ(cache_.size(), 16u);
  ExpectBalanced(16);
}

// G3: a build that began before a clear never shows up after it. The clear's number is the era of
// what may be served; an object remembers the era in which its build began.
TEST_F(GuardedCacheStress, G3NothingFromBeforeAClearIsServedAfterIt) {
  const DeviceName device{"CUDA", 0};
  std::atomic<uint64_t> era{0};
  GuardedCache<int, uint64_t> eras({.name = "eras"},
                                   [](const int&, uint64_t) { return absl::OkStatus(); });
  Run([&](int thread) {
    for (int i = 0; i < 2000; ++i) {
      if (thread == 0) {
        // The handles of the old era are gone from here on …
        ++era;
        // … and this is the second notification, after the release.
        ASSERT_TRUE(eras.Clear().ok());
        const uint64_t now = era;
        if (const auto value = eras.Find(i % 4)) {
          ASSERT_GE(*value, now);
        }
      } else {
        FindOrBuild<int, uint64_t>(&eras, i % 4, device, [&]() -> absl::StatusOr<uint64_t> {
          return era.load();
        }).IgnoreError();
      }
    }
  });
  const auto statistics = eras.statistics();
  EXPECT_EQ(statistics.destroyed + statistics.retained, statistics.built);
}

TEST_F(GuardedCacheStress, EverythingAtOnce) {
  Run([&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread) + 1000);
    for (int i = 0; i < 1500; ++i) {
      const int key = static_cast<int>(random() % 12);
      const DeviceName device{key % 2 == 0 ? "CUDA" : "HIP", static_cast<uint32_t>(key % 3)};
      switch (random() % 20) {
        case 0:
          ASSERT_TRUE(cache_.Clear().ok());
          break;
        case 1:
          ASSERT_TRUE(cache_.EvictDevice(device.family(), device.index).ok());
          break;
        case 2:
          ASSERT_TRUE(cache_.Clear(device.family()).ok());
          break;
        case 3:
          ASSERT_TRUE(cache_.Erase(key).ok());
          break;
        case 4: {
          // Somebody takes a build and lets it go.
          const auto dropped = cache_.Begin(key, device, nullptr);
          break;
        }
        case 5: {
          // Joins, if there is something to join, and gives up.
          auto answer = cache_.Begin(key, device, [](const absl::StatusOr<ObjectPtr>&) {});
          if (auto* waiting = std::get_if<Cache::Waiting>(&answer)) {
            cache_.CancelWait(key, waiting->id);
          }
          break;
        }
        default:
          Get(key, device).IgnoreError();
          break;
      }
    }
  });
  EXPECT_TRUE(cache_.Clear().ok());
  ExpectBalanced(0);
}

}  // namespace
}  // namespace kcache
