// SPDX-License-Identifier: Apache-2.0
// The tests against a real server: skipped, for all to see, if there is none.
#include <gtest/gtest.h>

#include <cstdio>

#include "redis/redis_server.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!kvc_redis_test::RedisServer::is_installed()) {
    puts("skipped: there is no redis-server (package redis-server)");
    return 77;
  }
  return RUN_ALL_TESTS();
}
