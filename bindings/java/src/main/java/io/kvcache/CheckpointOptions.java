// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** How to save, restore and compact a {@link Checkpoint}: kvc_checkpoint_config. null = all defaults. */
public final class CheckpointOptions {
  String codec = "none";
  long id, intervalNs, lastNs, nowNs;
  int level, flags, keepLast;

  /** Save and compact: "none", the default, or a plug-in: "lz4", "zstd", with its level (0 = its default). */
  public CheckpointOptions codec(String name, int itsLevel) {
    codec = name;
    level = itsLevel;
    return this;
  }

  /** Restore and compact: which checkpoint; 0, the default, = the newest. */
  public CheckpointOptions id(long value) {
    id = Sizes.count("id", value);
    return this;
  }

  /** Save and compact: remove checkpoints but for the newest so many; 0, the default, = keep all. */
  public CheckpointOptions keepLast(int checkpoints) {
    keepLast = Sizes.count("keepLast", checkpoints);
    return this;
  }

  private CheckpointOptions flag(int bit, boolean value) {
    flags = value ? flags | bit : flags & ~bit;
    return this;
  }

  /** Save: write all pages, in one file. */
  public CheckpointOptions full(boolean value) {
    return flag(Native.KVC_CHECKPOINT_FULL, value);
  }

  /** Save: fail with NOT_FOUND if there is no checkpoint to build on. */
  public CheckpointOptions increment(boolean value) {
    return flag(Native.KVC_CHECKPOINT_INCREMENT, value);
  }

  /** Save the requests too, as their tokens. Restore: make them wait again. */
  public CheckpointOptions requests(boolean value) {
    return flag(Native.KVC_CHECKPOINT_REQUESTS, value);
  }

  /** False: do not wait for the disk: a checkpoint survives the end of the process, but perhaps not of the machine. True by default. */
  public CheckpointOptions sync(boolean value) {
    return flag(Native.KVC_CHECKPOINT_NO_SYNC, !value);
  }

  /** Restore groups without a storage too: the caller brings their bytes, or has them still; all blocks must keep their ids. */
  public CheckpointOptions bytesElsewhere(boolean value) {
    return flag(Native.KVC_CHECKPOINT_BYTES_ELSEWHERE, value);
  }

  /** Save: do nothing, with id 0 as the result, until nowNs is lastNs + intervalNs. Give nowNs of the save before as lastNs. */
  public CheckpointOptions every(long interval, long last, long now) {
    intervalNs = Sizes.count("interval", interval);
    lastNs = Sizes.count("last", last);
    nowNs = Sizes.count("now", now);
    return this;
  }
}
