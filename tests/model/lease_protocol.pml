/* kcache's protocol of leases, invalidation and teardown. README.md says what is modelled, what is not,
 * and which line here is which code; run.sh runs it. */

#include "state.pmh"
#include "checks.pmh"
#include "host.pmh"
#include "notify.pmh"
#include "leases.pmh"
#include "teardown.pmh"
#include "sessions.pmh"
#include "daemon.pmh"
#include "client.pmh"
#include "environment.pmh"

