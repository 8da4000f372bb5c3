// SPDX-License-Identifier: Apache-2.0
// Memory of a scheduler. Arrays show it in place, so what its end releases stays until the last array is
// gone.
#include <pthread.h>
#include <stdlib.h>

#include "native.h"

typedef struct header {  // before each piece of memory, at its alignment
  struct header* next;
} header;

struct kvc_kept {
  kvc_allocator allocator;
  pthread_mutex_t lock;
  size_t num_pieces;  // that are not released
  int owned, ending;
  header* kept;
  uint64_t num_changes;  // of the pressure
  int high;
  double usage;
};

static size_t offset_of(size_t alignment) {
  return alignment > sizeof(header) ? alignment : (sizeof(header) + alignment - 1) / alignment * alignment;
}

static void* allocate(void* user_data, size_t size, size_t alignment) {
  kvc_kept* kept = user_data;
  const size_t offset = offset_of(alignment);
  const size_t room =
      size > SIZE_MAX - 2 * offset ? 0 : (offset + size + alignment - 1) / alignment * alignment;
  void* place = room ? aligned_alloc(alignment, room) : NULL;
  if (!place) return NULL;
  pthread_mutex_lock(&kept->lock);
  ++kept->num_pieces;
  pthread_mutex_unlock(&kept->lock);
  return (char*)place + offset;
}

static void release(void* user_data, void* memory, size_t size, size_t alignment) {
  (void)size;
  if (!memory) return;
  kvc_kept* kept = user_data;
  header* place = (header*)((char*)memory - offset_of(alignment));
  pthread_mutex_lock(&kept->lock);
  const int stays = kept->owned && kept->ending, last = --kept->num_pieces == 0 && !kept->owned;
  if (stays) place->next = kept->kept, kept->kept = place;
  pthread_mutex_unlock(&kept->lock);
  if (!stays) free(place);
  if (last) free(kept);
}

static void note_pressure(void* user_data, int32_t high, double usage) {
  kvc_kept* kept = user_data;
  ++kept->num_changes, kept->high = high, kept->usage = usage;
}

kvc_kept* new_kvc_kept(void) {
  kvc_kept* kept = calloc(1, sizeof *kept);
  if (!kept) return NULL;
  pthread_mutex_init(&kept->lock, NULL);
  kept->allocator.struct_size = sizeof kept->allocator, kept->allocator.user_data = kept;
  kept->allocator.allocate = allocate, kept->allocator.release = release;
  kept->owned = 1;
  return kept;
}

void delete_kvc_kept(kvc_kept* kept) {
  pthread_mutex_lock(&kept->lock);
  header* piece = kept->kept;
  kept->owned = 0;
  const int last = kept->num_pieces == 0;
  pthread_mutex_unlock(&kept->lock);
  while (piece) {
    header* const next = piece->next;
    free(piece);
    piece = next;
  }
  if (last) free(kept);
}

void kvc_kept_end(kvc_kept* kept) {
  pthread_mutex_lock(&kept->lock);
  kept->ending = 1;
  pthread_mutex_unlock(&kept->lock);
}

void kvc_kept_lend(kvc_kept* kept, kvc_scheduler_config* config) {
  config->allocator = &kept->allocator;
  config->on_pressure = note_pressure, config->user_data = kept;
}

uint64_t kvc_kept_num_changes(const kvc_kept* kept) { return kept->num_changes; }
int kvc_kept_high(const kvc_kept* kept) { return kept->high; }
double kvc_kept_usage(const kvc_kept* kept) { return kept->usage; }
