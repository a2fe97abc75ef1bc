// The client processes of the domain tests: one program, one part to play a process. Each becomes the
// user it is told to be before it does anything else, so that the kernel vouches for who it is.
//
//   kcache-domains-player [--uid=N] PART SOCKET ARGUMENT…
//
//   launch DEVICE TAG MS  launches and checks results without end, MS milliseconds apart:
//                                                                   "ok BEGIN END", "failed BEGIN REASON what"
//   acquire DEVICE TAG    acquires a loaded kernel without end:     "acquired END NANOSECONDS"
//   busy DEVICE           launches a kernel that never ends:        "busy"
//   native DEVICE         a kernel that makes system calls, as its standard input says
//   victim DEVICE         a session whose secrets are read out:     "captured NAME HEX" …
//   stranger DEVICE N     tries N times what it reads of them:      "tried WHAT REASON"
//
// Times are CLOCK_MONOTONIC in nanoseconds, the same clock in every process. A part ends when its
// standard input does; "ready" is the first line of each.
//
// Threads: one, and the client library's.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_PLAYER_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_PLAYER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kcache/device.h"

namespace kcache::domains {

using Words = std::vector<std::string>;  // the arguments after SOCKET

// Each answers the exit status.
int PlayLaunch(const std::string& socket, const Words& words);
int PlayAcquire(const std::string& socket, const Words& words);
int PlayBusy(const std::string& socket, const Words& words);
int PlayNative(const std::string& socket, const Words& words);
int PlayVictim(const std::string& socket, const Words& words);
int PlayStranger(const std::string& socket, const Words& words);

// One line on stdout, at once.
void Say(const std::string& line);
// "failed" lines and messages: one line, whatever the status says.
std::string OneLine(const absl::Status& status);
// Whether standard input has ended, or does within that time. Reads nothing: for parts that are told nothing.
bool ToldToStop(int wait_ms = 0);
// The next line of standard input; nothing: it has ended.
std::optional<std::string> Hear();
int64_t Now();

// Without this the part cannot be played: says why and ends.
[[noreturn]] void GiveUp(const absl::Status& why);

// "OpenCL:0"; ends the process when it is no device.
DeviceId DeviceOf(const std::string& text);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_PLAYER_H_
