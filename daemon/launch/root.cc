// The file system that a backend sees.
//
// A minimal root is built the way bubblewrap does it: a tmpfs becomes the root, with the old root
// below it, so that no path of the new one can collide with a path of the old one; then the finished
// root is pivoted in and the old one is let go.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "daemon/launch/launch.h"

namespace kcache::launch {
namespace {

// Where the tmpfs is mounted for the moment; any directory that every system has.
constexpr char kBase[] = "/tmp";
constexpr char kOld[] = "/old";
constexpr char kNew[] = "/new";

constexpr const char* kSystem[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
// What the dynamic linker and the loaders of drivers read. Nothing else of /etc.
constexpr const char* kConfiguration[] = {
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    "/etc/OpenCL",      "/etc/vulkan",     "/etc/localtime",
    // Topology of processors and memory, which thread pools ask for.
    "/sys/devices/system"};
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                    "/dev/urandom"};

bool Exists(const std::string& path, struct stat* info) {
  return lstat(path.c_str(), info) == 0;
}

// Every directory on the way to `path`, and `path` itself when it is one.
void MakePath(const std::string& path, bool is_directory) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), 0755);  // exists: fine
  }
  if (is_directory) {
    mkdir(path.c_str(), 0755);
    return;
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0) close(fd);
}

void Mount(const char* source, const std::string& target, const char* type, unsigned long flags,
           const char* options) {
  if (mount(source, target.c_str(), type, flags, options) != 0) {
    Fail("mounting " + target, errno);
  }
}

void SetReadOnly(const std::string& path, unsigned flags) {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
  if (mount_setattr(AT_FDCWD, path.c_str(), flags, &attributes, sizeof attributes) != 0) {
    Fail("making " + path + " read-only", errno);
  }
}

// Binds `source` (below kOld) at `path` of the new root, if it exists. A symbolic link is copied: /bin
// is one to usr/bin.
void Show(const std::string& path, bool read_only) {
  const std::string source = kOld + path;
  const std::string target = kNew + path;
  struct stat info {};
  if (!Exists(source, &info)) return;
  struct stat already {};
  if (S_ISLNK(info.st_mode)) {
    char link[4096];
    const ssize_t length = readlink(source.c_str(), link, sizeof link - 1);
    if (length < 0 || Exists(target, &already)) return;
    link[length] = '\0';
    MakePath(target.substr(0, target.rfind('/')), true);
    if (symlink(link, target.c_str()) != 0) Fail("making the link " + path, errno);
    // What an absolute link below the shown directories leads to is shown by its own name.
    return;
  }
  MakePath(target, S_ISDIR(info.st_mode));
  Mount(source.c_str(), target, nullptr, MS_BIND | MS_REC, nullptr);
  if (read_only) SetReadOnly(target, AT_RECURSIVE);
}

void ShowDevice(const std::string& path) {
  const std::string target = kNew + path;
  const std::string source = kOld + path;
  struct stat info {};
  if (!Exists(source, &info)) return;
  MakePath(target, S_ISDIR(info.st_mode));
  Mount(source.c_str(), target, nullptr, MS_BIND | MS_REC, nullptr);
}

void BuildMinimal(const Request& request, bool in_user_namespace) {
  Mount("tmpfs", kBase, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
  const std::string base_old = std::string(kBase) + kOld;
  mkdir(base_old.c_str(), 0755);
  mkdir((std::string(kBase) + kNew).c_str(), 0755);
  if (syscall(SYS_pivot_root, kBase, base_old.c_str()) != 0) Fail("changing the root", errno);
  if (chdir("/") != 0) Fail("entering the new root", errno);

  Mount("tmpfs", kNew, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m");
  for (const char* path : kSystem) Show(path, true);
  for (const char* path : kConfiguration) Show(path, true);
  for (const std::string& path : request.show) Show(path, true);
  MakePath(std::string(kNew) + "/dev", true);
  for (const char* device : kDevices) ShowDevice(device);
  for (const std::string& device : request.devices) ShowDevice(device);
  const std::string shared_memory = std::string(kNew) + "/dev/shm";
  MakePath(shared_memory, true);
  Mount("tmpfs", shared_memory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
  const std::string proc = std::string(kNew) + "/proc";
  MakePath(proc, true);
  // In a user namespace the kernel lets a new /proc be mounted only where an old one is in sight; init
  // covers it with its own.
  if (in_user_namespace) {
    Mount((std::string(kOld) + "/proc").c_str(), proc, nullptr, MS_BIND | MS_REC, nullptr);
  }
  Show(request.directory, false);
  for (const std::string& path : request.write) Show(path, false);
  // Programs that know no TMPDIR.
  struct stat info {};
  const std::string temporary = std::string(kNew) + "/tmp";
  if (!Exists(temporary, &info)) (void)!symlink(request.directory.c_str(), temporary.c_str());

  // Without MS_REC: the root itself, not what was mounted in it.
  SetReadOnly(kNew, 0);
  if (chdir(kNew) != 0) Fail("entering the new root", errno);
  if (syscall(SYS_pivot_root, ".", ".") != 0) Fail("changing the root", errno);
  if (umount2(".", MNT_DETACH) != 0) Fail("leaving the old root", errno);
  if (chdir("/") != 0) Fail("entering the new root", errno);
}

struct Kept {
  std::string path;
  int fd;
  bool is_directory;
};

Kept Keep(const std::string& path) {
  Kept kept{path, open(path.c_str(), O_PATH | O_CLOEXEC), false};
  struct stat info {};
  if (kept.fd >= 0 && fstat(kept.fd, &info) == 0) kept.is_directory = S_ISDIR(info.st_mode);
  return kept;
}

void BindKept(const Kept& kept) {
  const std::string source = "/proc/self/fd/" + std::to_string(kept.fd);
  Mount(source.c_str(), kept.path, nullptr, MS_BIND | MS_REC, nullptr);
}

void MakeWritable(const std::string& path) {
  mount_attr writable{};
  writable.attr_clr = MOUNT_ATTR_RDONLY;
  if (mount_setattr(AT_FDCWD, path.c_str(), AT_RECURSIVE, &writable, sizeof writable) != 0) {
    Fail("making " + path + " writable", errno);
  }
}

void BuildHidden(const Request& request) {
  // Held open, for they may lie below what is hidden.
  std::vector<Kept> shown;
  for (const std::string& path : request.show) {
    if (Kept kept = Keep(path); kept.fd >= 0) shown.push_back(kept);
  }
  std::vector<Kept> devices;
  if (!request.devices.empty()) {
    for (const char* device : kDevices) devices.push_back(Keep(device));
    for (const std::string& device : request.devices) devices.push_back(Keep(device));
  }
  std::vector<Kept> writable{Keep(request.directory)};
  for (const std::string& path : request.write) writable.push_back(Keep(path));
  for (const Kept& kept : writable) {
    if (kept.fd < 0) Fail("opening " + kept.path, errno);
  }

  for (const std::string& path : request.hide) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    Mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m");
  }
  if (!devices.empty()) Mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=0755,size=1m");
  struct stat info {};
  const auto make = [&info](const Kept& kept) {
    if (!Exists(kept.path, &info)) MakePath(kept.path, kept.is_directory);
  };
  for (const Kept& kept : shown) {
    make(kept);
    BindKept(kept);
  }
  for (const Kept& kept : devices) {
    if (kept.fd < 0) continue;
    make(kept);
    BindKept(kept);
  }
  if (!devices.empty()) mkdir("/dev/shm", 0777);
  for (const Kept& kept : writable) make(kept);
  SetReadOnly("/", AT_RECURSIVE);
  if (Exists("/dev/shm", &info)) {
    Mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
  }
  for (const Kept& kept : writable) {
    BindKept(kept);
    MakeWritable(kept.path);
  }
}

}  // namespace

void BuildRoot(const Request& request, bool in_user_namespace) {
  Mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (request.root == Root::kMinimal) {
    BuildMinimal(request, in_user_namespace);
  } else {
    BuildHidden(request);
  }
}

void MountProc() {
  Mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
}

}  // namespace kcache::launch
