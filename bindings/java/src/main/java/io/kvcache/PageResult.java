// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** Result of one page of a Tier's job. Written by scripts/generate. */
public enum PageResult {
  /** The job has not ended. */
  WAITING(Native.KVC_PAGE_WAITING),
  /** Exists: a hit. Get, put, remove: done. A put of a page that is there is done too: it replaces one of another size. */
  OK(Native.KVC_PAGE_OK),
  /** There is no such page, or it did not check. */
  MISS(Native.KVC_PAGE_MISS),
  /** The page is being written, read or removed; or it is leased, and was to be removed. */
  PENDING(Native.KVC_PAGE_PENDING),
  /** Get with a generation: that page is gone, though another may have its key. */
  EXPIRED(Native.KVC_PAGE_EXPIRED),
  /** Put: all pages are leased or in use, the page is larger than pageBytes, or (dir) the disk is full. */
  NO_SPACE(Native.KVC_PAGE_NO_SPACE),
  /** The system or the server failed. */
  FAILED(Native.KVC_PAGE_FAILED),
  /** It was not done before the deadline. */
  TIMEOUT(Native.KVC_PAGE_TIMEOUT),
  /** The job was cancelled before it was begun. */
  CANCELLED(Native.KVC_PAGE_CANCELLED),
  /** The server failed before, and is left alone until the next probe. */
  UNAVAILABLE(Native.KVC_PAGE_UNAVAILABLE);

  /** Its number in C. */
  public final int code;

  PageResult(int code) {
    this.code = code;
  }

  private static final PageResult[] ALL = values();

  /** Returns the one with this number. */
  public static PageResult of(int code) {
    for (PageResult one : ALL) {
      if (one.code == code) {
        return one;
      }
    }
    throw Sizes.invalid("%d is not a PageResult of this version", code);
  }
}
