// Files that change, as the kernel tells it. Each case waits for what it has caused.

#include "daemon/ops/file_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "daemon/ops/boot_clock.h"
#include "daemon/ops/strand_executor.h"
#include "temporary_directory.h"

namespace kcache::ops {
namespace {

namespace fs = std::filesystem;

class FileWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loop = EpollLoop::Create("files");
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
    auto files = FileWatch::Create(loop_.get(), &executor_, absl::Milliseconds(1),
                                   [this](const std::string& path) {
                                     MutexLock lock(&mutex_);
                                     told_.push_back(path);
                                     changed_.NotifyAll();
                                   });
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
  }
  void TearDown() override {
    executor_.Stop();
    files_.reset();
  }
  void Watch(std::vector<std::string> paths) {
    std::promise<void> done;
    executor_.Run([&] {
      files_->Watch(paths);
      done.set_value();
    });
    done.get_future().wait();
  }
  // The next path that is told; empty: none within a minute.
  std::string Next() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    MutexLock lock(&mutex_);
    while (told_.empty()) {
      if (!changed_.WaitUntil(&mutex_, deadline)) return "";
    }
    std::string path = told_.front();
    told_.clear();
    return path;
  }

  TemporaryDirectory directory_;
  BootClock clock_;
  StrandExecutor executor_{&clock_};
  std::unique_ptr<EpollLoop> loop_;
  std::unique_ptr<FileWatch> files_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(FileWatchTest, TellsThatAFileIsWrittenReplacedAndRemoved) {
  const std::string library = directory_.Write("lib/libdriver.so.1", "one");
  Watch({library});
  directory_.Write("lib/libdriver.so.1", "two");
  EXPECT_EQ(Next(), library);
  fs::rename(directory_.Write("lib/new", "three"), library);
  EXPECT_EQ(Next(), library);
  fs::remove(library);
  EXPECT_EQ(Next(), library);
}

TEST_F(FileWatchTest, WhatLiesBesideAFileDoesNotCount) {
  const std::string library = directory_.Write("lib/libdriver.so.1", "one");
  Watch({library});
  directory_.Write("lib/another", "x");
  directory_.Write("lib/libdriver.so.1", "two");
  EXPECT_EQ(Next(), library) << "in the kernel's order, the other one came first";
}

TEST_F(FileWatchTest, WhatLiesInADirectoryCounts) {
  fs::create_directories(directory_ / "vendors");
  Watch({directory_ / "vendors"});
  const std::string icd = directory_.Write("vendors/new.icd", "libdriver.so.1");
  EXPECT_EQ(Next(), icd);
}

TEST_F(FileWatchTest, WhatIsNotThereYetIsTold) {
  Watch({directory_ / "etc/OpenCL/vendors"});
  directory_.Write("etc/OpenCL/vendors/new.icd", "libdriver.so.1");
  EXPECT_EQ(Next(), directory_ / "etc");
  Watch({directory_ / "etc/OpenCL/vendors"});  // as after a probe
  fs::rename(directory_ / "etc/OpenCL/vendors", directory_ / "etc/OpenCL/away");
  EXPECT_EQ(Next(), directory_ / "etc/OpenCL/vendors");
}

TEST_F(FileWatchTest, ALinkIsWatchedAtBothEnds) {
  const std::string version1 = directory_.Write("lib/libdriver.so.1.1", "one");
  const std::string link = directory_ / "lib/libdriver.so.1";
  fs::create_symlink("libdriver.so.1.1", link);
  Watch({link});
  directory_.Write("lib/libdriver.so.1.1", "changed in place");
  EXPECT_EQ(Next(), version1);
  fs::remove(link);
  EXPECT_EQ(Next(), link);
}

TEST_F(FileWatchTest, WhatIsNoLongerWatchedIsNotTold) {
  const std::string old = directory_.Write("a/old", "1"), now = directory_.Write("b/now", "1");
  Watch({old});
  Watch({now});
  directory_.Write("a/old", "2");
  directory_.Write("b/now", "2");
  EXPECT_EQ(Next(), now);
}

TEST_F(FileWatchTest, NonsenseIsLeftOut) {
  const std::string good = directory_.Write("good", "1");
  Watch({"", "relative", "/", "/proc/self/nothing/there", good});
  directory_.Write("good", "2");
  EXPECT_EQ(Next(), good);
}

}  // namespace
}  // namespace kcache::ops
