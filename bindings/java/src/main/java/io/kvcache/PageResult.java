// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What became of one page of a {@link Tier}'s job: KVC_PAGE_*, in the order of its numbers. */
public enum PageResult {
  /** The job has not ended. */
  WAITING,
  /** Exists: a hit. Get, put, remove: done. A put of a page that is there is done too. */
  OK,
  /** There is no such page, or it did not check. */
  MISS,
  /** The page is being written, read or removed; or it is leased, and was to be removed. */
  PENDING,
  /** Get with a generation: that page is gone, though another may have its key. */
  EXPIRED,
  /** Put: all pages are leased or in use, or the page is larger than pageBytes. */
  NO_SPACE,
  /** The system or the server failed. */
  FAILED,
  /** It was not done in time. */
  TIMEOUT,
  /** The job was cancelled before it was begun. */
  CANCELLED,
  /** The server failed before, and is left alone until the next probe. */
  UNAVAILABLE;

  private static final PageResult[] ALL = values();

  static PageResult of(int code) {
    return ALL[code];
  }
}
