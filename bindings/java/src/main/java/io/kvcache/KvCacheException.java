// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** A failed call, which changed nothing. The message says what was wrong, the value, the limit and the fix. */
public class KvCacheException extends Exception {
  private static final long serialVersionUID = 1;
  private final int status;

  KvCacheException(int status, String message) {
    super(message);
    this.status = status;
  }

  /** Called by the native layer to make the exception of a status. */
  static KvCacheException of(int status, String message) {
    boolean space = status == Native.KVC_ERROR_NO_SPACE || status == Native.KVC_ERROR_AGAIN || status == Native.KVC_ERROR_OVER_QUOTA
        || status == Native.KVC_ERROR_NEVER_FITS;
    return space ? new NoSpaceException(status, message) : new KvCacheException(status, message);
  }

  /** Its KVC_ERROR_* number: the code of a {@link Status}. */
  public int status() {
    return status;
  }
}
