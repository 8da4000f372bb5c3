// SPDX-License-Identifier: Apache-2.0
// A checkpoint as one stream: through files, memory, pipes and sockets, whole or not at all.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "calls_with_files.h"
#include "rounds.h"

namespace kvc {
namespace {

using test::Calls;
using test::Engine;
using test::Fault;
using test::FaultyFiles;
using test::Folder;
using test::Form;
using test::Spoken;

class Stream : public testing::Test {
 protected:
  Stream() : old_(form()), prompts_(test::speak(old_, 5, 30)), config_(config_of(old_)) {
    for (const Spoken& prompt : prompts_) pages_.push_back(old_.check_pages(prompt, 0));
  }

  static Form form() {
    Form form;
    form.num_blocks = 200, form.num_layers = 8, form.num_heads = 8, form.head_dim = 32;  // 32 KiB a page
    return form;
  }
  static kvc_checkpoint_config config_of(const Engine& engine) {
    kvc_checkpoint_config config = engine.config("");
    config.folder = nullptr;
    config.flags = 0;
    return config;
  }
  kvc_status send(int fd, kvc_checkpoint_info* info = nullptr) {
    return kvc_checkpoint_save_stream(old_.m, old_.storages.data(), old_.storages.size(), &config_, fd, info);
  }
  kvc_status receive(Engine& fresh, int fd, const char* folder = nullptr) {
    kvc_checkpoint_config config = config_of(fresh);
    config.folder = folder;
    kvc_namespace_pair names[8];
    return kvc_checkpoint_restore_stream(fresh.m, fresh.storages.data(), fresh.storages.size(), &config, fd,
                                         names, 8, nullptr, 0, nullptr);
  }
  void expect_all(Engine& fresh) {
    fresh.check();
    EXPECT_EQ(fresh.digest(), old_.digest());
    EXPECT_EQ(fresh.content(), old_.content());
    for (size_t i = 0; i < pages_.size(); ++i) EXPECT_EQ(fresh.check_pages(prompts_[i], 0), pages_[i]);
    EXPECT_EQ(fresh.wrong, 0u);
  }
  // The stream, in memory.
  std::string saved() {
    const int fd = memfd_create("stream", MFD_CLOEXEC);
    EXPECT_EQ(send(fd), KVC_OK) << kvc_last_error();
    std::string bytes(static_cast<size_t>(lseek(fd, 0, SEEK_CUR)), '\0');
    EXPECT_EQ(pread(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    close(fd);
    return bytes;
  }
  static int memory_of(const std::string& bytes) {
    const int fd = memfd_create("stream", MFD_CLOEXEC);
    EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return fd;
  }

  Engine old_;
  const std::vector<Spoken> prompts_;
  std::vector<size_t> pages_;  // of each prompt
  kvc_checkpoint_config config_;
};

TEST_F(Stream, ThroughMemoryHasTheSameDigestAndHits) {
  const int fd = memfd_create("stream", MFD_CLOEXEC);
  ASSERT_EQ(write(fd, "before", 6), 6);
  kvc_checkpoint_info info = {};
  info.struct_size = sizeof info;
  const uint64_t before = old_.digest();
  ASSERT_EQ(send(fd, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(old_.digest(), before);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), static_cast<off_t>(6 + info.written_bytes));
  EXPECT_GT(info.num_pages, 50u);
  ASSERT_EQ(lseek(fd, 6, SEEK_SET), 6);
  for (int i = 0; i < 2; ++i) {  // its position stays
    Engine fresh(form());
    ASSERT_EQ(receive(fresh, fd), KVC_OK) << kvc_last_error();
    expect_all(fresh);
  }
  close(fd);
}

TEST_F(Stream, ThroughAPipeAndASocketIsStaged) {
  const Folder folder;
  const std::string path = folder / "";
  for (const bool socket : {false, true}) {
    for (const char* const stage : {static_cast<const char*>(nullptr), path.c_str()}) {
      for (const bool waits : {true, false}) {
        int ends[2];
        ASSERT_EQ(socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0);
        if (!waits) {
          for (const int end : ends) ASSERT_EQ(fcntl(end, F_SETFL, O_NONBLOCK), 0);
        }
        std::thread writer([&] {
          EXPECT_EQ(send(ends[1]), KVC_OK) << kvc_last_error();
          if (socket)
            shutdown(ends[1], SHUT_WR);
          else
            close(ends[1]);
        });
        Engine fresh(form());
        const kvc_status status = receive(fresh, ends[0], stage);
        writer.join();
        ASSERT_EQ(status, KVC_OK) << kvc_last_error();
        expect_all(fresh);
        close(ends[0]);
        if (socket) close(ends[1]);
      }
    }
  }
}

TEST_F(Stream, ThatNobodyReadsIsAnErrorAndNoSignal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(send(ends[1]), KVC_ERROR_DEVICE);
  EXPECT_NE(std::strstr(kvc_last_error(), "errno 32"), nullptr) << kvc_last_error();
  close(ends[1]);
  EXPECT_EQ(send(ends[1]), KVC_ERROR_DEVICE);
  EXPECT_NE(std::strstr(kvc_last_error(), "errno 9"), nullptr) << kvc_last_error();
  const int full = open("/dev/full", O_WRONLY);
  if (full >= 0) {
    EXPECT_EQ(send(full), KVC_ERROR_LIMIT) << kvc_last_error();
    close(full);
  }
  old_.check();
}

// The write in the pipe then says how much it has written, and there is a signal all the same.
TEST_F(Stream, WhoseReaderLeavesInTheMiddleIsAnErrorAndNoSignal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::thread reader([&] {
    int waiting = 0;
    while (waiting < 1 << 16) EXPECT_EQ(ioctl(ends[0], FIONREAD, &waiting), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the writer waits
    close(ends[0]);
  });
  EXPECT_EQ(send(ends[1]), KVC_ERROR_DEVICE);
  reader.join();
  close(ends[1]);
  old_.check();
}

TEST_F(Stream, ThatIsCutOrChangedChangesNothing) {
  const std::string whole = saved();
  Engine fresh(form());
  const uint64_t before = fresh.digest();
  const auto refused = [&](const std::string& bytes, size_t at) {
    const int fd = memory_of(bytes);
    const kvc_status status = receive(fresh, fd);
    close(fd);
    EXPECT_TRUE(status == KVC_ERROR_CORRUPT || status == KVC_ERROR_UNSUPPORTED) << at << ": " << status;
    EXPECT_NE(std::strstr(kvc_last_error(), "descriptor"), nullptr) << kvc_last_error();
    ASSERT_EQ(fresh.digest(), before) << at;
    fresh.check();
  };
  std::mt19937_64 random(test::test_seed());
  for (size_t i = 0; i < test::rounds<size_t>(16); ++i) {
    const size_t size = i < 8 ? whole.size() - 1 - i : random() % whole.size();
    refused(whole.substr(0, size), size);
    if (HasFatalFailure()) return;
  }
  for (size_t i = 0; i < test::rounds<size_t>(60); ++i) {
    std::string bytes = whole;
    // Of the end, the manifest before it, the data.
    const size_t bit = i % 3 == 0   ? (bytes.size() - 64) * 8 + random() % 512
                       : i % 3 == 1 ? (bytes.size() - 64 - random() % 4000) * 8 + random() % 8
                                    : (4096 + random() % 4096) * 8 + random() % 8;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    refused(bytes, bit);
    if (HasFatalFailure()) return;
  }
  refused(whole + std::string(64, '\0'), 1);
  refused(whole.substr(4096), 2);
  refused("", 3);
  const int fd = memory_of(whole);
  EXPECT_EQ(receive(fresh, fd), KVC_OK) << kvc_last_error();
  close(fd);
  expect_all(fresh);
}

TEST_F(Stream, WhoseCallsFailChangesNothing) {
  const std::string whole = saved();
  for (const Fault fault : {Fault::kEio, Fault::kEnospc, Fault::kShort, Fault::kEintr}) {
    const bool harmless = fault == Fault::kShort || fault == Fault::kEintr;
    for (uint64_t k = 0;; ++k) {  // of writing
      SCOPED_TRACE(k);
      FaultyFiles files;
      files.set(fault, k);
      Calls calls(old_, "");
      const int fd = memfd_create("stream", MFD_CLOEXEC);
      kvc_checkpoint_info info = {};
      const uint64_t before = old_.digest();
      const kvc_status status = save_stream(files, *old_.m->impl, calls.groups, calls.options, fd, &info);
      close(fd);
      EXPECT_EQ(old_.digest(), before);
      EXPECT_EQ(status == KVC_OK, harmless || files.hits == 0) << kvc_last_error();
      if (files.hits == 0) break;
    }
    for (uint64_t k = 0;; ++k) {  // of reading, from a pipe
      SCOPED_TRACE(k);
      FaultyFiles files;
      files.set(fault, k);
      Engine fresh(form());
      Calls calls(fresh, "");
      calls.options.folder = nullptr;
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
      std::thread writer([&] {
        static_cast<void>(system_files().send(ends[1], whole.data(), whole.size()));
        close(ends[1]);
      });
      const uint64_t before = fresh.digest();
      kvc_checkpoint_info info = {};
      kvc_namespace_pair names[8];
      const kvc_status status = restore_stream(files, *fresh.m->impl, calls.groups, calls.options, ends[0],
                                               {names, 8, nullptr, 0}, &info);
      close(ends[0]);
      writer.join();
      fresh.check();
      if (status == KVC_OK) {
        expect_all(fresh);
      } else {
        EXPECT_FALSE(harmless) << kvc_last_error();
        EXPECT_EQ(fresh.digest(), before);
      }
      if (files.hits == 0) break;
    }
  }
}

TEST_F(Stream, OfSomethingElseIsRefusedByName) {
  const int fd = memory_of(saved());
  Form other = form();
  other.weights = "w2";
  Engine fresh(other);
  EXPECT_EQ(receive(fresh, fd), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(kvc_last_error(), "weights is \"w1\""), nullptr) << kvc_last_error();
  close(fd);
  EXPECT_EQ(receive(fresh, -1), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(send(-7), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(kvc_last_error(), "fd is -7"), nullptr) << kvc_last_error();
  config_.keep_last = 2;
  EXPECT_EQ(send(1), KVC_ERROR_INVALID_ARGUMENT);
  config_.keep_last = 0, config_.folder = "/tmp";
  EXPECT_EQ(send(1), KVC_ERROR_INVALID_ARGUMENT);
}

TEST_F(Stream, IsCompressedByACodec) {
  config_.codec = "zstd";
  const int fd = memfd_create("stream", MFD_CLOEXEC);
  const kvc_status status = send(fd);
  if (status == KVC_ERROR_NOT_FOUND) GTEST_SKIP() << kvc_last_error();
  ASSERT_EQ(status, KVC_OK) << kvc_last_error();
  ASSERT_EQ(lseek(fd, 0, SEEK_SET), 0);
  Engine fresh(form());
  ASSERT_EQ(receive(fresh, fd), KVC_OK) << kvc_last_error();
  close(fd);
  expect_all(fresh);
}

}  // namespace
}  // namespace kvc
