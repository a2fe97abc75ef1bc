// Output for programs: one JSON document, or one a line for streams. Field names are those of
// admin.proto; ids and digests, which are bytes there, are hexadecimal here.
//
// Threads: pure functions.

#ifndef KCACHE_CLIENT_CTL_JSON_H_
#define KCACHE_CLIENT_CTL_JSON_H_

#include <google/protobuf/message.h>

#include <string>

namespace kcache::ctl {

// Every field, also those that are zero or empty. 64-bit numbers are numbers.
std::string Json(const google::protobuf::Message& message, bool pretty);

}  // namespace kcache::ctl

#endif  // KCACHE_CLIENT_CTL_JSON_H_
