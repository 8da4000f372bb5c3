// SPDX-License-Identifier: Apache-2.0
// URLs of the Redis plug-in: what they name, and errors that say what is wrong.
#include "url.h"

#include <gtest/gtest.h>
#include <kvcache/tier.h>

#include <string>

#include "tier_config.h"

namespace kvc_redis {
namespace {

std::string error_of(const std::string& text) {
  Url url;
  char error[400] = "";
  return parse_url(text.c_str(), &url, error, sizeof error) ? "" : error;
}
Url url_of(const std::string& text) {
  Url url;
  char error[400] = "";
  EXPECT_TRUE(parse_url(text.c_str(), &url, error, sizeof error)) << error;
  return url;
}

TEST(RedisUrl, HasDefaults) {
  const Url url = url_of("redis://");
  EXPECT_STREQ(url.host, "localhost");
  EXPECT_EQ(url.port, 6379u);
  EXPECT_EQ(url.db, 0u);
  EXPECT_STREQ(url.prefix, "kv");
  EXPECT_EQ(url.prefix_bytes, 2u);
  EXPECT_EQ(url.ttl_s, 0u);
  EXPECT_EQ(url.connect_ms, 1000u);
  EXPECT_EQ(url.timeout_ms, 5000u);
  EXPECT_STREQ(url.user, "");
  EXPECT_STREQ(url.password, "");
  EXPECT_STREQ(url.socket, "");
}

TEST(RedisUrl, HasAllParts) {
  const Url url = url_of("redis://me:p%40%2F%3f@[::1]:7000/12?prefix=a%00b&ttl=60&connect=20&timeout=30");
  EXPECT_STREQ(url.user, "me");
  EXPECT_STREQ(url.password, "p@/?");
  EXPECT_STREQ(url.host, "::1");
  EXPECT_EQ(url.port, 7000u);
  EXPECT_EQ(url.db, 12u);
  EXPECT_EQ(std::string(url.prefix, url.prefix_bytes), std::string("a\0b", 3));
  EXPECT_EQ(url.ttl_s, 60u);
  EXPECT_EQ(url.connect_ms, 20u);
  EXPECT_EQ(url.timeout_ms, 30u);
  EXPECT_STREQ(url_of("redis://:pw@host").password, "pw");
  EXPECT_STREQ(url_of("redis://host/").host, "host");
  EXPECT_EQ(url_of("redis:///5").db, 5u);
  EXPECT_STREQ(url_of("redis:///run/redis%20a.sock?db=3").socket, "/run/redis a.sock");
  EXPECT_EQ(url_of("redis:///run/redis.sock?db=3").db, 3u);
  EXPECT_EQ(url_of("redis://h?prefix=").prefix_bytes, 0u);
}

TEST(RedisUrl, SaysWhatIsWrong) {
  const std::pair<std::string, const char*> kWrong[] = {
      {"rediss://host", "TLS is not supported"},
      {"redis:host", "redis://host:port/db"},
      {"redis://host:0", "the port is '0'; it is a number of 1 to 65535"},
      {"redis://host:", "the port is ''"},
      {"redis://host:65536", "65535"},
      {"redis://host:12x", "'12x'"},
      {"redis://::1", "the port is ':1'"},
      {"redis://[::1", "lacks a ']'"},
      {"redis://[::1]x", "behind ']'"},
      {"redis://host/65536", "the database behind the host is '65536'"},
      {"redis://host/path", "redis:///path/of/socket"},
      {"redis://host?ttl=-1", "ttl is '-1'; it is a number of 0 to 1000000000"},
      {"redis://host?ttl=", "ttl is ''"},
      {"redis://host?connect=0", "connect is '0'; it is a number of 1 to 3600000"},
      {"redis://host?timeout=99999999999999999999", "timeout is"},
      {"redis://host?tls=1", "there is no parameter 'tls'; there are prefix"},
      {"redis://host?prefix=%4", "each %XX is complete"},
      {"redis://host?prefix=%zz", "each %XX is complete"},
      {"redis://host?prefix=" + std::string(65, 'a'), "at most 64 bytes"},
      {"redis://" + std::string(256, 'h'), "longer than 255 bytes"},
      {"redis:///" + std::string(107, 's'), "longer than 107 bytes"},
      {"redis://%00", "malformed"},
      {"redis://" + std::string(129, 'u') + ":p@h", "at most 128 and 512 bytes"},
  };
  for (const auto& [text, part] : kWrong)
    EXPECT_NE(error_of(text).find(part), std::string::npos) << text << ": " << error_of(text);
}

TEST(RedisUrl, NoTextHoldsAPassword) {
  for (const char* text : {"redis://secret@host", "redis://u:secret@host:x", "redis://u:se/secret@host",
                           "redis://u:12?secret@host", "redis:u:secret@host", "redis://u:secret%4@host",
                           "redis://u:secret@host?nothing=1", "rediss://u:secret@h"}) {
    EXPECT_NE(error_of(text), "") << text;
    EXPECT_EQ(error_of(text).find("secret"), std::string::npos) << error_of(text);
  }
}

TEST(RedisUrl, IsCheckedWhenATierIsMade) {
  kvc_tier_config config = test_tier_config("redis://127.0.0.1:1?prefix=%&threads=1", 4096);
  kvc_tier* tier = nullptr;
  EXPECT_EQ(kvc_tier_create(&config, &tier), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("prefix is '%'"), std::string::npos) << kvc_last_error();
  config.url = "rediss://127.0.0.1:1";
  EXPECT_NE(kvc_tier_create(&config, &tier), KVC_OK);
  EXPECT_EQ(tier, nullptr);
}

}  // namespace
}  // namespace kvc_redis
