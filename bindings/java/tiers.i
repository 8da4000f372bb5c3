// SPDX-License-Identifier: Apache-2.0
// How the thread of a tier's jobs sleeps, and is woken.

%{
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
%}
%inline %{
static int32_t kvc_wake_create(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
static void kvc_wake(int32_t wake) { (void)!eventfd_write(wake, 1); }
static void kvc_wake_close(int32_t wake) { close(wake); }

/* Until there are completions to poll, or a wake, or so many milliseconds are over (-1 = never). */
static void kvc_tier_sleep(kvc_tier *t, int32_t wake, int32_t milliseconds) {
  int32_t fd = -1;
  eventfd_t ignored;
  kvc_tier_event_fd(t, &fd);
  struct pollfd files[2] = {{fd, POLLIN, 0}, {wake, POLLIN, 0}};
  poll(files, 2, milliseconds);
  (void)!eventfd_read(wake, &ignored);
}
%}
