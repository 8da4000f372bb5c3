// SPDX-License-Identifier: Apache-2.0
// Rows of publishers.
#include "hardening/every_call.h"

namespace kvc::test {
namespace {

bool publisher_opened(Scene& s) { return s.publisher.open(); }
bool published(Scene& s) {
  return s.admit(20, 20) && s.publisher.open() &&
         kvc_publisher_poll(s.publisher.publisher, &s.publisher.num_batches) == KVC_OK;
}

}  // namespace

void add_publisher_calls(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_publisher_create, &s.publisher.config, &s.publisher.made).allocating());
  calls.push_back(
      KVC_CALL(kvc_publisher_destroy, std::exchange(s.publisher.publisher, nullptr)).after(published));
  calls.push_back(KVC_CALL(kvc_publisher_poll, s.publisher.publisher, &s.publisher.num_batches)
                      .after([](Scene& s) { return s.admit(20, 20) && s.publisher.open(); })
                      .allocating());
  calls.push_back(KVC_CALL(kvc_publisher_resync, s.publisher.publisher).after(publisher_opened));
  calls.push_back(KVC_CALL(kvc_publisher_read, s.publisher.publisher, 0u, &s.publisher.found,
                           s.publisher.payload, sizeof s.publisher.payload, &s.publisher.size)
                      .after(published));
  calls.push_back(KVC_CALL(kvc_publisher_name_namespace, s.publisher.publisher, &s.publisher.name)
                      .after(publisher_opened)
                      .allocating());
  calls.push_back(
      KVC_CALL(kvc_publisher_read_stats, s.publisher.publisher, &s.publisher.stats).after(published));
}

}  // namespace kvc::test
