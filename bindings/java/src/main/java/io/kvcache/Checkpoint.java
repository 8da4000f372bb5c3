// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What a checkpoint has: kvc_checkpoint_info. The methods save what a manager has cached, with the bytes of its blocks, in a folder, and restore it in
 * another process. A folder has any number of checkpoints, each with an id; a later one has a higher id, and writes only pages that the one before does not
 * have. Any thread may call them.
 *
 * @param id never 0, but when a save was not due
 * @param numFiles data files that it needs
 * @param fileBytes of all files that it needs
 * @param writtenBytes that this save or compaction wrote; else of its own files
 * @param pageBytes of all its pages, not compressed; storedBytes: the same as they are stored
 * @param numPages blocks with bytes; newPages: of these, in its own data file
 * @param numBlocks blocks, with or without bytes
 * @param numNamespaces but for the default one
 * @param lostBlocks save: blocks that were evicted before they were written; they are left out
 * @param leftOut restore: blocks for which there was no room
 * @param notRemoved save, compact: old files that could not be removed; the next save tries again
 * @param version of the format
 * @param idsKept restore: all blocks have the ids that they had
 * @param content {@link Manager#contentDigest} of the manager that was saved
 * @param codec of its own data file
 * @param model its first bytes, other than printable ones as '?'; weights likewise
 */
public record Checkpoint(long id, long numFiles, long fileBytes, long writtenBytes, long pageBytes, long storedBytes, long numPages, long newPages,
    long numBlocks, long numPositions, long numNamespaces, long numRequests, long lostBlocks, long leftOut, long notRemoved, int version, int blockSize,
    int numGroups, boolean idsKept, byte[] content, String codec, String model, String weights) {
  /**
   * What {@link #restore} made.
   *
   * @param namespaces new ids by old ones
   * @param requests with {@link CheckpointOptions#requests}: those that wait again, by their old ids
   * @param committed how many tokens of each had been committed, by their old ids; 0 = it waited
   */
  public record Restored(Map<Long, Long> namespaces, Map<Long, Request> requests, Map<Long, Long> committed, Checkpoint info) {}

  private interface Call {
    void run(kvc_checkpoint_info info) throws KvCacheException;
  }

  private static Checkpoint read(Call call) throws KvCacheException {
    try (kvc_checkpoint_info i = new kvc_checkpoint_info()) {
      call.run(i);
      return read(i);
    }
  }

  private static Checkpoint read(kvc_checkpoint_info i) {
    return new Checkpoint(i.getId(), i.getNum_files(), i.getFile_bytes(), i.getWritten_bytes(), i.getPage_bytes(), i.getStored_bytes(), i.getNum_pages(),
        i.getNew_pages(), i.getNum_blocks(), i.getNum_positions(), i.getNum_namespaces(), i.getNum_requests(), i.getLost_blocks(), i.getLeft_out(),
        i.getNot_removed(), i.getVersion(), i.getBlock_size(), i.getNum_groups(), i.getIds_kept() != 0, i.getContent(), i.getCodec(), i.getModel(),
        i.getWeights());
  }

  private interface Work {
    void run(long manager, long[] storages) throws KvCacheException;
  }

  /** Makes a call with the addresses of open storages. */
  private static void with(Manager manager, List<Storage> storages, Work work) throws KvCacheException {
    List<Storage> all = new ArrayList<>(storages); // null is allowed
    List<Runnable> ends = new ArrayList<>();
    try {
      long[] addresses = Offload.enter(all, ends);
      manager.call(m -> work.run(m, addresses));
    } finally {
      ends.forEach(Runnable::run);
      Reference.reachabilityFence(all);
    }
  }

  private static CheckpointOptions orDefault(CheckpointOptions options) {
    return options == null ? new CheckpointOptions() : options;
  }

  /**
   * Saves what a manager has cached. The manager may serve meanwhile. storages: one in memory of the host for each group; a null in it = its blocks are
   * saved without bytes. folder: made if it is not there; what it is in must be. pages: what computed the blocks. A failed save leaves all earlier
   * checkpoints as they were. Statuses: INVALID_ARGUMENT, NOT_FOUND (increment without a base, the codec, the folder's parent), BUSY (another process writes
   * to the folder), LIMIT (the disk is full), DEVICE, UNSUPPORTED (channel keys), OUT_OF_MEMORY.
   */
  public static Checkpoint save(Manager manager, List<Storage> storages, Path folder, PageConfig pages, CheckpointOptions options) throws KvCacheException {
    CheckpointOptions o = orDefault(options);
    return read(info -> with(manager, storages, (m, s) -> Native.kvc_checkpoint_save(m, s, pages.model, pages.weights, pages.numerics, pages.numLayers,
        pages.numHeads, pages.firstLayer, pages.firstHead, folder.toString(), o.codec, o.level, o.flags, o.keepLast, o.intervalNs, o.lastNs, o.nowNs, info)));
  }

  /**
   * Fills a new manager, and the storages of its groups, with a checkpoint: its hits are those of the manager that was saved. Its number of blocks, the
   * layout of its storages and its policy may be others. Nobody else may use the manager meanwhile. If it fails the manager is as it was; blocks of the
   * storages, all of them free, may have other bytes. Statuses: NOT_FOUND, CORRUPT (a file does not check), INVALID_ARGUMENT (made for something else),
   * BUSY (the manager is not new), UNSUPPORTED (a group without a storage; a newer format), LIMIT, OUT_OF_MEMORY, DEVICE.
   */
  public static Restored restore(Manager manager, List<Storage> storages, Path folder, PageConfig pages, CheckpointOptions options)
      throws KvCacheException {
    CheckpointOptions o = orDefault(options);
    boolean requests = (o.flags & Native.KVC_CHECKPOINT_REQUESTS) != 0;
    try (kvc_checkpoint_info i = new kvc_checkpoint_info()) {
      for (long names = 16, waiting = requests ? 16 : 0;;) {
        ByteBuffer namePairs = Buffers.bytes(Math.toIntExact(16 * names)), requestPairs = Buffers.bytes(Math.toIntExact(32 * waiting));
        try {
          with(manager, storages, (m, s) -> Native.kvc_checkpoint_restore(m, s, pages.model, pages.weights, pages.numerics, pages.numLayers, pages.numHeads,
              pages.firstLayer, pages.firstHead, folder.toString(), o.id, o.flags, namePairs, requestPairs, i));
        } catch (KvCacheException error) {
          if (error.status() == Native.KVC_ERROR_BUFFER_TOO_SMALL && (i.getNum_namespaces() > names || requests && i.getNum_requests() > waiting)) {
            names = Math.max(names, i.getNum_namespaces());
            waiting = requests ? Math.max(waiting, i.getNum_requests()) : 0;
            continue;
          }
          throw error;
        }
        Map<Long, Long> namespaces = new HashMap<>();
        Map<Long, Request> made = new HashMap<>();
        Map<Long, Long> committed = new HashMap<>();
        for (long n = 0; n < i.getNum_namespaces(); ++n) {
          namespaces.put(namePairs.getLong(), namePairs.getLong());
        }
        for (long n = 0; requests && n < i.getNum_requests(); ++n) {
          long old = requestPairs.getLong();
          made.put(old, manager.request(requestPairs.getLong()));
          requestPairs.getLong(); // its tokens
          committed.put(old, requestPairs.getLong());
        }
        return new Restored(namespaces, made, committed, read(i));
      }
    }
  }

  /** Returns the ids of the checkpoints of a folder, oldest first. NOT_FOUND: the folder. */
  public static long[] list(Path folder) throws KvCacheException {
    LongBuffer ids = Buffers.grown(8, 64, (room, count) -> Native.kvc_checkpoint_list(folder.toString(), room.asLongBuffer(), count)).asLongBuffer();
    long[] found = new long[ids.remaining()];
    ids.get(found);
    return found;
  }

  /** Returns what a checkpoint has, without reading its pages. id: 0 = the newest. Statuses: NOT_FOUND, CORRUPT, UNSUPPORTED (a newer format). */
  public static Checkpoint info(Path folder, long id) throws KvCacheException {
    return read(info -> Native.kvc_checkpoint_read_info(folder.toString(), Sizes.count("id", id), info));
  }

  /** Reads and checks every byte of all files that a checkpoint needs. CORRUPT: the text has the file and the place. */
  public static Checkpoint validate(Path folder, long id) throws KvCacheException {
    return read(info -> Native.kvc_checkpoint_validate(folder.toString(), Sizes.count("id", id), info));
  }

  /** Removes a checkpoint, and the files that only it needs. Statuses: INVALID_ARGUMENT (id 0), NOT_FOUND, BUSY. */
  public static void remove(Path folder, long id) throws KvCacheException {
    Native.kvc_checkpoint_remove(folder.toString(), Sizes.count("id", id));
  }

  /**
   * Makes a checkpoint of the same content with all its pages in one file, then removes the one that it was made from, and others as keepLast says. Uses id,
   * codec, keepLast and sync of the options. No manager is needed. If it fails, nothing is removed.
   */
  public static Checkpoint compact(Path folder, CheckpointOptions options) throws KvCacheException {
    CheckpointOptions o = orDefault(options);
    return read(info -> Native.kvc_checkpoint_compact(folder.toString(), o.id, o.codec, o.level, o.flags & Native.KVC_CHECKPOINT_NO_SYNC, o.keepLast, info));
  }
}
