// Marks a thread of the library while it runs the application's code (or its own event handling),
// so that a call which would wait for that very thread is refused instead of hanging.
//
// Threads: per thread by nature; this marks threads, never operations.

#ifndef KCACHE_CLIENT_CALLBACK_SCOPE_H_
#define KCACHE_CLIENT_CALLBACK_SCOPE_H_

namespace kcache::internal {

class CallbackScope {
 public:
  CallbackScope() { ++depth_; }
  ~CallbackScope() { --depth_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  static bool active() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_CALLBACK_SCOPE_H_
