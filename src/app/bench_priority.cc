#include "app/bench_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace weir::app {

namespace {

constexpr int kNiceness = -10;

}  // namespace

Priority RaisePriority() {
  sched_param parameters{};
  parameters.sched_priority = sched_get_priority_min(SCHED_RR);
  if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &parameters) == 0) {
    return Priority::kRealTime;
  }
  // Of this thread only: Linux keeps niceness by thread.
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness) == 0) {
    return Priority::kNice;
  }
  return Priority::kOrdinary;
}

RaisedPriority::RaisedPriority()
    : policy_before_(sched_getscheduler(0)),
      niceness_before_(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()))) {
  RaisePriority();
}

RaisedPriority::~RaisedPriority() {
  if (policy_before_ != SCHED_OTHER) return;  // somebody chose it
  const sched_param parameters{};
  sched_setscheduler(0, SCHED_OTHER, &parameters);
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness_before_);
}

const char* Describe(Priority priority) {
  switch (priority) {
    case Priority::kRealTime:
      return "real-time priority";
    case Priority::kNice:
      return "raised priority";
    case Priority::kOrdinary:
      break;
  }
  return "ordinary priority; as root the figures depend less on what else runs";
}

}  // namespace weir::app
