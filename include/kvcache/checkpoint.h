/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_CHECKPOINT_H
#define KVCACHE_CHECKPOINT_H

/** @file kvcache/checkpoint.h
 *  @brief Checkpoints: what a manager has cached, with the bytes of its blocks, in a folder.
 *
 *  A checkpoint has the namespaces with their quotas, the prefix positions with their tokens, extra keys and
 *  priorities, those of encoders and states too, which of them has a block in which group, the order in which
 *  the blocks would be evicted, the registered prompts with what they pin, and the pages (kvcache/page.h) of
 *  the blocks. A new manager in another process takes it over and has the same hits. Its number of blocks,
 *  the layout of its storages and its policy may be others.
 *
 *  A folder has any number of checkpoints, each with an id; a later one has a higher id, also if those before
 *  were removed (the file `lock` has the highest of these; keep it). The path may be a link to the folder;
 *  links in it are refused. A save writes only
 *  pages that the checkpoint before does not have (an increment), unless it is asked for a full one. Every
 *  checkpoint can be restored and removed by itself; files that others need stay.
 *
 *  A save that was cut short, by the end of the process or a full disk, leaves the pages that it has written;
 *  the next one does not write these again.
 *
 *  A page has the name of its tokens. After a reset or kvc_manager_unpublish_blocks equal tokens may
 *  have other bytes: the next save writes all pages. Checkpoints from before keep what they have: if those
 *  bytes are wrong, remove them. A new manager that was not restored takes pages of equal names from the
 *  newest checkpoint; if these may be wrong, save with KVC_CHECKPOINT_FULL.
 *
 *  A checkpoint is there in whole or not at all, wherever a process ends. Everything that is read is checked
 *  before a manager changes. One process at a time writes to a folder; any number read.
 *
 *  Not kept: pins without a name (kvc_manager_pin_prefix), statistics, events, what the policy remembers of
 *  evicted positions, hints of live requests, and blocks that a step in flight is writing. Blocks in use
 *  count as used last.
 *
 *  <kvcache.h> states the conventions of all calls. */

#include <kvcache/page.h>
#include <kvcache/rebuild.h>
#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_checkpoint_config.flags. */
enum {
  /** Save: write all pages, in one file, and take none that a save before has written. */
  KVC_CHECKPOINT_FULL = 1,
  /** Save: fail with NOT_FOUND if there is no checkpoint to build on. Without it a save writes all pages anew
   *  if that one has 64 files, or more garbage than pages. */
  KVC_CHECKPOINT_INCREMENT = 2,
  KVC_CHECKPOINT_REQUESTS = 4, /**< Save: the requests too, as their tokens. Restore: make them wait again. */
  /** Do not wait for the disk: a checkpoint survives the end of the process, but perhaps not of the machine.
   *  If older ones are to be removed (keep_last, a compaction) the call waits for the disk before it removes
   *  them; if that fails they stay, and not_removed counts them. */
  KVC_CHECKPOINT_NO_SYNC = 8,
  /** Restore: groups without a storage are restored too. The caller brings their bytes before it admits a
   *  request, or has them still: all blocks must keep their ids, or the restore fails. */
  KVC_CHECKPOINT_BYTES_ELSEWHERE = 16,
  KVC_CHECKPOINT_CACHE_ONLY = 32 /**< Restore: without quotas and registered prompts. */
};

/** How to save, restore and compact. `folder` has no default. */
typedef struct kvc_checkpoint_config {
  size_t struct_size; /**< sizeof(kvc_checkpoint_config) */
  const char* folder; /**< Save: made if it is not there; what it is in must be. */
  /** What computed the pages. Save and restore: must be given. The model, weights and numerics must be the
   *  same in both; layers and heads too, and the part of them that the storages have. */
  const kvc_page_config* pages;
  /** Save and compact: "none", or a plug-in: "lz4", "zstd"; NULL = "none". */
  const char* codec;
  uint64_t id;    /**< Restore, compact: which checkpoint; 0 = the newest. Save: 0. */
  int32_t level;  /**< Of the codec; 0 = its default. */
  uint32_t flags; /**< KVC_CHECKPOINT_* */
  /** Save, compact: remove checkpoints but for the newest so many; 0 = keep all. One whose manifest cannot be
   *  read does not count and is not removed, and as long as it is there no data file is removed. */
  uint32_t keep_last;
  uint32_t reserved; /**< 0 */
  /** Save: do nothing, with the result KVC_OK and id 0, from last_ns until now_ns is last_ns + interval_ns.
   *  Give now_ns of the save before as last_ns. If now_ns is less than last_ns, the clock has begun anew: the
   *  save is done at once. interval_ns 0 = save; with another one now_ns 0 is refused. */
  uint64_t interval_ns, last_ns, now_ns;
} kvc_checkpoint_config;

/** A checkpoint. */
typedef struct kvc_checkpoint_info {
  size_t struct_size;      /**< sizeof(kvc_checkpoint_info) */
  uint64_t id;             /**< Never 0, but when a save was not due. */
  uint64_t num_files;      /**< Data files that it needs. */
  uint64_t file_bytes;     /**< Of all files that it needs, whole. */
  uint64_t written_bytes;  /**< Bytes that this save or compaction wrote; else of its own files. */
  uint64_t page_bytes;     /**< Of all its pages, not compressed. */
  uint64_t stored_bytes;   /**< The same as they are stored. */
  uint64_t num_pages;      /**< Blocks with bytes. */
  uint64_t new_pages;      /**< Of these, in its own data file. */
  uint64_t num_blocks;     /**< Blocks, with or without bytes. */
  uint64_t num_positions;  /**< Prefix positions. */
  uint64_t num_namespaces; /**< But for the default one. */
  uint64_t num_requests;
  uint64_t lost_blocks; /**< Save: blocks that were evicted before they were written; they are left out. */
  uint64_t left_out;    /**< Restore: blocks for which there was no room. */
  /** Save, compact: old files that could not be removed, or were not, since a manifest cannot be read. The
   *  next save tries again. */
  uint64_t not_removed;
  uint32_t version; /**< Of the format. */
  uint32_t block_size, num_groups;
  uint32_t ids_kept;           /**< Restore: 1 = all blocks have the ids that they had. */
  uint8_t content[32];         /**< kvc_manager_content_digest of the manager that was saved. */
  char codec[16];              /**< Of its own data file. */
  char model[64], weights[64]; /**< Their first bytes, other than printable ones as '?'. */
  uint64_t resumed_pages;      /**< Save: of new_pages, those that a save which was cut short had written. */
  /** Save: positions, blocks and other records that it visited at most under one hold of the manager's lock,
   *  and positions and blocks that one admission visited at most since the manager was made. A hold is not
   *  longer than 64, or than an admission of the longest prefix that is saved. */
  uint64_t longest_hold, longest_admission;
} kvc_checkpoint_info;

/** What a save would write now. */
typedef struct kvc_checkpoint_needs {
  size_t struct_size; /**< sizeof(kvc_checkpoint_needs) */
  uint64_t num_pages; /**< Blocks with bytes. */
  /** Of these, neither in the newest checkpoint nor left by a save that was cut short. */
  uint64_t new_pages;
  /** Upper bound of the bytes that the save takes of the disk. Without a codec close to what it takes. */
  uint64_t new_bytes;
  /** The same for a save of all pages. */
  uint64_t full_bytes;
  uint64_t free_bytes; /**< Of the disk of the folder, for this user. */
} kvc_checkpoint_needs;

/** A request by its ids in two managers. Frozen. */
typedef struct kvc_request_pair {
  uint64_t old_id, new_id; /**< Ids of requests of equal tokens. */
  uint64_t num_tokens;     /**< That it knows. */
  uint64_t num_committed;  /**< That had been committed when it was saved; 0 = it waited. */
} kvc_request_pair;

/** Saves what a manager has cached. The manager may serve meanwhile: its lock is taken for 64 positions and
 *  blocks at a time, or for as many as an admission of the prefix at hand visits. Blocks cannot be evicted
 *  while they are copied: at one time at most a sixteenth of the smallest pool, or one block if that is more.
 *  If nobody uses the manager, its order of eviction does not change. kvc_manager_resize may find blocks held
 *  (BUSY). Execute the moves that the manager asked for before; compact and shrink no pool meanwhile. The log
 *  of a recorded manager has nothing of a save: logged calls wait while it holds blocks.
 *  @param[in]  storages [num_storages] a storage in host memory for each group; NULL = its blocks are saved
 *              without bytes. Its block i has the id i, or, if it has fewer blocks than that takes, the i-th
 *              id of its group's pool.
 *  @param[out] info What was saved. NULL = nobody asks. The caller sets struct_size.
 *  @return KVC_OK; INVALID_ARGUMENT; NOT_FOUND (INCREMENT without a base; a codec; the folder's parent);
 *  CORRUPT (INCREMENT on a damaged base); BUSY (another process writes to the folder); LIMIT (the disk has
 *  too little room: without a codec nothing was written); DEVICE (the system failed; the text has the file
 *  and the reason); UNSUPPORTED (a storage of a device; channel keys); OUT_OF_MEMORY. A failed save leaves
 *  earlier ones alone. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_save(kvc_manager* m, kvc_storage* const* storages, size_t num_storages,
                                       const kvc_checkpoint_config* config, kvc_checkpoint_info* info);

/** Tells what kvc_checkpoint_save() would write, with the same parameters, and writes nothing.
 *  @param[out] needs The caller sets struct_size.
 *  @return As of kvc_checkpoint_save. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_measure(kvc_manager* m, kvc_storage* const* storages, size_t num_storages,
                                          const kvc_checkpoint_config* config, kvc_checkpoint_needs* needs);

/** Saves all that a manager has cached as one stream: to a file, a memfd, a pipe, a socket. The stream ends
 *  with the call; the descriptor stays open. If the reader of a pipe or a socket has closed it, the call
 *  fails and the process gets no SIGPIPE.
 *  @param[in] config As of kvc_checkpoint_save, where folder, keep_last and interval_ns are 0, and flags are
 *  0 or KVC_CHECKPOINT_REQUESTS.
 *  @param[in] fd     Is written from its position on. If a pipe or a socket is full the call waits, also if
 *  the descriptor does not block (O_NONBLOCK).
 *  @return As of kvc_checkpoint_save; LIMIT (the disk is full), DEVICE (the text has the reason). If it
 *  fails, a part of the stream was written, which no restore takes. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_save_stream(kvc_manager* m, kvc_storage* const* storages,
                                              size_t num_storages, const kvc_checkpoint_config* config,
                                              int32_t fd, kvc_checkpoint_info* info);

/** Fills a new manager, and the storages of its groups, with a checkpoint. block_size, groups and what
 *  computed the pages must be the same. If there are too few blocks or positions, those that would be evicted
 *  first are left out. With as many blocks as before, all blocks keep their ids, and kvc_manager_digest is
 *  what it was, unless somebody besides registered prompts held a block.
 *
 *  Namespaces are opened as often as they were, and have their quotas; requests wait, and an admission finds
 *  what they had committed in full blocks: the tokens behind that, less than a block of them, are computed
 *  again. Both have new ids. Hints end after as much time as they had left.
 *  Prompts are registered as they were.
 *  @param[out] namespaces [namespace_capacity] all but the default one; num_namespaces of the checkpoint
 *              (kvc_checkpoint_read_info). @param[out] requests [request_capacity] likewise, with
 *              KVC_CHECKPOINT_REQUESTS: what each knows and had committed stands beside its ids.
 *  @param[out] info What was restored. NULL = nobody asks.
 *  @return KVC_OK; NOT_FOUND (no such checkpoint or folder); CORRUPT (a file does not check; the text says
 *  which); INVALID_ARGUMENT (made for something else: the text names the field and both values);
 *  BUFFER_TOO_SMALL (info is what read_info gives); BUSY (the manager is not new; or as of
 *  kvc_checkpoint_read_info); INVALID_ARGUMENT, LIMIT
 *  (quotas or prompts for which the manager has no room; KVC_CHECKPOINT_CACHE_ONLY leaves them out); LIMIT
 *  (max_request_tokens is below a request, or below the end of one of its extra keys);
 *  UNSUPPORTED (a group
 *  without storage; a recorded manager; a storage of a device; a newer format; KVC_MANAGER_NO_PREFIX_CACHE);
 *  NOT_FOUND (its codec); LIMIT, OUT_OF_MEMORY, DEVICE. If it fails the manager is as it was; blocks of the
 *  storages, all of them free, may have other bytes. Nobody else may use the manager meanwhile. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_restore(kvc_manager* m, kvc_storage* const* storages, size_t num_storages,
                                          const kvc_checkpoint_config* config, kvc_namespace_pair* namespaces,
                                          size_t namespace_capacity, kvc_request_pair* requests,
                                          size_t request_capacity, kvc_checkpoint_info* info);

/** Fills a new manager with a checkpoint of kvc_checkpoint_save_stream(), as kvc_checkpoint_restore() does:
 *  all of it is read and checked before the manager changes.
 *  @param[in] config As of kvc_checkpoint_restore, where id is 0. folder: what can be read once, a pipe or a
 *             socket, waits there in a file without a name; NULL = in memory, all of it, however much comes:
 *             nobody knows how much that is before it ends. Give a folder unless you trust who writes.
 *  @param[in] fd     A file or a memfd is read from its position to its end, and the position stays. All
 *             others are read until nothing more comes: who writes must close, or shut down, its end.
 *  @return As of kvc_checkpoint_restore; CORRUPT (the stream is damaged, or did not come whole). After
 *  BUFFER_TOO_SMALL what a pipe had is lost. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_restore_stream(kvc_manager* m, kvc_storage* const* storages,
                                                 size_t num_storages, const kvc_checkpoint_config* config,
                                                 int32_t fd, kvc_namespace_pair* namespaces,
                                                 size_t namespace_capacity, kvc_request_pair* requests,
                                                 size_t request_capacity, kvc_checkpoint_info* info);

/** Lists the checkpoints of a folder, without opening them. @param[out] ids [capacity] ascending. @param[out]
 *  count How many. @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed); NOT_FOUND (the folder);
 *  DEVICE. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_list(const char* folder, uint64_t* ids, size_t capacity, size_t* count);

/** Reads what a checkpoint has, without its pages. @param[in] id 0 = the newest. @return KVC_OK; NOT_FOUND,
 *  CORRUPT, UNSUPPORTED (a newer format), BUSY (id 0: writers replaced the newest one whenever it was
 *  opened), DEVICE, OUT_OF_MEMORY. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_read_info(const char* folder, uint64_t id, kvc_checkpoint_info* info);

/** Reads and checks every byte of all files that a checkpoint needs. @return As kvc_checkpoint_read_info.
 *  CORRUPT: the text has the file and the place. Memory follows the manifest, not the sizes of data files and
 *  pages. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_validate(const char* folder, uint64_t id, kvc_checkpoint_info* info);

/** Removes a checkpoint, and the files that only it needs. It may be damaged. While the manifest of another
 *  one cannot be read, data files stay. @return KVC_OK; INVALID_ARGUMENT (id 0),
 *  NOT_FOUND, BUSY, DEVICE. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_remove(const char* folder, uint64_t id);

/** Removes all checkpoints but the newest keep_last (0 = removes none), and then all files that no checkpoint
 *  needs: pages, and what saves that were cut short have left.
 *
 *  A checkpoint whose manifest cannot be read does not count among the newest, and is not removed. Nobody
 *  knows what it needs: no data file is removed then, and the call fails with CORRUPT, or UNSUPPORTED (a
 *  newer format). The text has the file. Remove that checkpoint by its id (kvc_checkpoint_remove), or bring
 *  its file back.
 *  @param[out] removed_bytes Of these files.
 *  @return KVC_OK; NOT_FOUND (the folder), CORRUPT, UNSUPPORTED, BUSY, DEVICE. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_checkpoint_collect(const char* folder, uint32_t keep_last, uint64_t* removed_bytes);

/** Makes a checkpoint of the same content with all its pages in one file, and then removes the one that it
 *  was made from, and others as config.keep_last says. No manager is needed. Takes memory for eight pages, of
 *  the size that the manifest says: validate a folder of somebody else's. @param[out] info The new one.
 *  @return As kvc_checkpoint_validate and kvc_checkpoint_save. If it fails, nothing is removed. Thread-safe.
 *  Since 0.3. */
KVC_API kvc_status kvc_checkpoint_compact(const kvc_checkpoint_config* config, kvc_checkpoint_info* info);

/** A digest of what a manager has cached: its namespaces, positions, which of them has a block in which
 *  group, and the order of eviction. Equal in all processes, whatever the ids of blocks. @param[out] digest
 *  [32]
 *  @return KVC_OK; INVALID_ARGUMENT, OUT_OF_MEMORY. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_content_digest(kvc_manager* m, uint8_t* digest);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_CHECKPOINT_H */
