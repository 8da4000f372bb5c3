// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** Too few blocks are free or evictable. Preempt a request, or wait until one is freed. */
public final class NoSpaceException extends KvCacheException {
  private static final long serialVersionUID = 1;

  NoSpaceException(int status, String message) {
    super(status, message);
  }

  /** Whether the namespace would have more blocks than its quota allows: only its own requests can make room. */
  public boolean overQuota() {
    return status() == Native.KVC_ERROR_OVER_QUOTA;
  }

  /** Whether there will be space when the steps in flight are retired. */
  public boolean again() {
    return status() == Native.KVC_ERROR_AGAIN;
  }
}
