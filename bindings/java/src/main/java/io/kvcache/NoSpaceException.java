// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** Not enough free or evictable blocks: an answer more than an error. Preempt or wait. */
public final class NoSpaceException extends KvCacheException {
  private static final long serialVersionUID = 1;

  NoSpaceException(int status, String message) {
    super(status, message);
  }

  /** Whether there will be space once the steps in flight are retired. */
  public boolean again() {
    return status() == Native.KVC_ERROR_AGAIN;
  }
}
