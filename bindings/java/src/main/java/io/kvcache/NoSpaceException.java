// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** Too few blocks are free or evictable. Unless it {@link #neverFits}, preempt a request, or wait until one is freed. */
public final class NoSpaceException extends KvCacheException {
  private static final long serialVersionUID = 1;

  NoSpaceException(int status, String message) {
    super(status, message);
  }

  /** Whether the namespace would have more blocks than its quota allows: only its own requests can make room. */
  public boolean overQuota() {
    return status() == Native.KVC_ERROR_OVER_QUOTA;
  }

  /** Whether this manager can never hold it: end the request. Waiting does not help. */
  public boolean neverFits() {
    return status() == Native.KVC_ERROR_NEVER_FITS;
  }

  /** Whether there will be space when the steps in flight are retired. */
  public boolean again() {
    return status() == Native.KVC_ERROR_AGAIN;
  }
}
