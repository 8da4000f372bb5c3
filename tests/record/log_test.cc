// SPDX-License-Identifier: Apache-2.0
// Logs that were cut or changed: refused with a text, or what is malformed in them is found; never a crash.
#include "record/log.h"

#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/quota.h>
#include <kvcache/retention.h>
#include <kvcache/step.h>

#include <cstring>
#include <string>

#include "record/recorded_manager.h"

namespace kvc {
namespace {

constexpr size_t kHeader = sizeof(LogHeader);

// Two parts with calls of many kinds; the size of the first.
Log make_log(size_t* first = nullptr) {
  kvc_manager_config config = recorded_config();
  config.flags = KVC_MANAGER_HINTS | KVC_MANAGER_ZERO_CROSS_NAMESPACE;
  config.max_quotas = 2;
  RecordedManager recorded(config);
  kvc_manager* const m = recorded.m;
  const uint64_t id = recorded.serve(0);
  const Log part = recorded.take();
  if (first != nullptr) *first = part.size();
  int32_t tokens[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  uint64_t out = 0, more = 0;
  kvc_namespace_config identity = {};
  identity.struct_size = sizeof identity;
  identity.tenant = "tenant", identity.tenant_size = 6;
  EXPECT_EQ(kvc_manager_open_namespace(m, &identity, &out), KVC_OK);
  EXPECT_EQ(kvc_manager_set_quota(m, out, 0, 2, 20), KVC_OK);
  EXPECT_EQ(kvc_manager_pin_prefix(m, PROMPT(0, tokens, 8, nullptr, 0), &out, &more), KVC_OK);
  EXPECT_EQ(kvc_manager_register_prompt(m, "system", PROMPT(0, tokens, 8, nullptr, 0), &more), KVC_OK);
  EXPECT_EQ(kvc_manager_set_priority(m, id, 0, 8, 80, 5), KVC_OK);
  kvc_extra_key key = {1, 2, {9}};
  kvc_request_config options = {};
  options.struct_size = sizeof options;
  options.lookahead = 2;
  EXPECT_EQ(kvc_manager_create_request(m, PROMPT(0, tokens, 8, &key, 1), &options, &out), KVC_OK);
  int32_t blocks[2];
  EXPECT_EQ(kvc_manager_acquire_blocks(m, 0, blocks, 2), KVC_OK);
  EXPECT_EQ(kvc_manager_release_blocks(m, blocks, 2), KVC_OK);
  kvc_step_limits limits = {sizeof limits, 2, 4, 4, 16, 32, 8, 16, 0};
  kvc_step* step = nullptr;
  EXPECT_EQ(kvc_step_create(m, &limits, &step), KVC_OK);
  step->num_requests = 1, step->num_admissions = 1, step->num_rows = 8;
  const_cast<uint64_t*>(step->requests)[0] = id;
  const_cast<uint64_t*>(step->extend_offsets)[1] = 2;
  const_cast<int32_t*>(step->extend_tokens)[0] = 5, const_cast<int32_t*>(step->extend_tokens)[1] = 6;
  const_cast<uint64_t*>(step->admit_offsets)[1] = 3;
  for (int i = 0; i < 3; ++i) const_cast<int32_t*>(step->admit_tokens)[i] = 100 + i;
  const_cast<int32_t*>(step->rows)[0] = 1, const_cast<int32_t*>(step->rows)[1] = 0;
  const_cast<uint64_t*>(step->committed)[0] = 10;
  EXPECT_EQ(kvc_manager_step(m, step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(step->status[0], KVC_OK);
  EXPECT_EQ(step->status[1], KVC_OK);
  kvc_step_destroy(step);
  recorded.digest();
  return joined(part, recorded.take());
}

// Writes the checksums of a log whose payload was changed.
void reseal(Log& log) {
  uint64_t previous = 0;
  for (size_t offset = 0; offset < log.size();) {
    LogHeader header = header_at(log.data(), offset);
    header.previous = previous;
    seal(&header, log.data() + offset + kHeader);
    std::memcpy(log.data() + offset, &header, kHeader);
    previous = header.checksum;
    offset += kHeader + header.size;
  }
}

TEST(Log, IsRight) {
  const Replayed replayed = replay(make_log());
  ASSERT_EQ(replayed.status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(replayed.info.mismatches, 0u) << replayed.info.text;
  EXPECT_EQ(replayed.info.calls, 12u);
}

TEST(Log, CutAnywhere) {
  size_t first = 0;
  const Log log = make_log(&first);
  for (size_t size = 0; size < log.size(); ++size) {
    const Log cut(log.begin(), log.begin() + static_cast<ptrdiff_t>(size));
    const Replayed replayed = replay(cut);
    if (size == first) {  // this is the log as it was then
      EXPECT_EQ(replayed.status, KVC_OK);
      EXPECT_EQ(replayed.info.calls, 2u);
    } else {
      ASSERT_EQ(replayed.status, KVC_ERROR_INVALID_ARGUMENT) << size;
      EXPECT_NE(std::string(kvc_last_error()).find("log"), std::string::npos);
    }
  }
}

TEST(Log, WithAByteChanged) {
  const Log log = make_log();
  for (size_t i = 0; i < log.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xff}) {
      Log changed = log;
      changed[i] = static_cast<unsigned char>(changed[i] ^ change);
      ASSERT_NE(replay(changed).status, KVC_OK) << "byte " << i;
      EXPECT_EQ(std::string(kvc_last_error()).rfind("byte ", 0), 0u) << kvc_last_error();
    }
  }
}

// Whoever makes a log can write any payload with a right checksum.
TEST(Log, WithAByteChangedAndARightChecksum) {
  const Log log = make_log();
  size_t refused = 0, different = 0;
  for (size_t offset = 0, part = 0; offset < log.size(); ++offset) {
    if (offset == part + kHeader + header_at(log.data(), part).size) part = offset;
    if (offset < part + kHeader) continue;
    for (const int change : {0x01, 0x02, 0x40, 0x80, 0xff}) {
      Log changed = log;
      changed[offset] = static_cast<unsigned char>(changed[offset] ^ change);
      reseal(changed);
      const Replayed replayed = replay(changed);
      refused += replayed.status != KVC_OK;
      different += replayed.status == KVC_OK && replayed.info.mismatches != 0;
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(different, 100u);
}

TEST(Log, OfAnotherVersion) {
  Log log = make_log();
  log[8] = 1;
  EXPECT_EQ(replay(log).status, KVC_ERROR_UNSUPPORTED);
  EXPECT_STREQ(
      kvc_last_error(),
      "byte 8: the log has format 1; this library reads format 2: replay it with the library that wrote it "
      "(version 300)");
}

TEST(Log, WithoutAPartOrInAnotherOrder) {
  size_t first = 0;
  const Log log = make_log(&first);
  const Log a(log.begin(), log.begin() + static_cast<ptrdiff_t>(first));
  const Log b(log.begin() + static_cast<ptrdiff_t>(first), log.end());
  EXPECT_EQ(replay(b).status, KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(
      kvc_last_error(),
      "byte 0: this part begins with call 3, call 1 must follow; give all parts of one log in order");
  EXPECT_EQ(replay(joined(b, a)).status, KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(replay(joined(a, a)).status, KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(replay(joined(log, b)).status, KVC_ERROR_INVALID_ARGUMENT);
  RecordedManager other;
  other.serve(3);
  const Log part_of_other = other.take();
  EXPECT_EQ(replay(joined(part_of_other, b)).status, KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("it follows another part"), std::string::npos);
  EXPECT_EQ(replay({}).status, KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_log_replay(log.data(), log.size(), nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Log, NamesTheFirstMismatch) {
  RecordedManager recorded;
  Log log = recorded.take();
  recorded.serve(0);
  const uint64_t digest = recorded.digest();
  Log part = recorded.take();
  part.back() ^= 1;  // of the digest's last byte
  log = joined(log, part);
  reseal(log);
  const Replayed replayed = replay(log);
  ASSERT_EQ(replayed.status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(replayed.info.mismatches, 1u);
  EXPECT_EQ(replayed.info.first_mismatch, 3u);
  EXPECT_EQ(std::string(replayed.info.text).rfind("call 3, kvc_manager_digest: the result is ", 0), 0u)
      << replayed.info.text;
  EXPECT_EQ(replayed.info.digest, digest);
}

}  // namespace
}  // namespace kvc
