// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** Result of a call, or of one item of a {@link Step}: kvc_status. An engine handles OK, NO_SPACE, AGAIN, OVER_QUOTA, NEVER_FITS, FILLING and SKIPPED; any other is a bug in it. */
public enum Status {
  OK(Native.KVC_OK),
  INVALID_ARGUMENT(Native.KVC_ERROR_INVALID_ARGUMENT),
  OUT_OF_MEMORY(Native.KVC_ERROR_OUT_OF_MEMORY),
  /** Too few blocks are free or evictable. */
  NO_SPACE(Native.KVC_ERROR_NO_SPACE),
  NOT_FOUND(Native.KVC_ERROR_NOT_FOUND),
  BUSY(Native.KVC_ERROR_BUSY),
  LIMIT(Native.KVC_ERROR_LIMIT),
  BUFFER_TOO_SMALL(Native.KVC_ERROR_BUFFER_TOO_SMALL),
  UNSUPPORTED(Native.KVC_ERROR_UNSUPPORTED),
  NOT_HELD(Native.KVC_ERROR_NOT_HELD),
  CORRUPT(Native.KVC_ERROR_CORRUPT),
  INTERNAL(Native.KVC_ERROR_INTERNAL),
  /** There will be space when the steps in flight are retired. */
  AGAIN(Native.KVC_ERROR_AGAIN),
  /** Not tried: an earlier admission had no space. */
  SKIPPED(Native.KVC_ERROR_SKIPPED),
  DEVICE(Native.KVC_ERROR_DEVICE),
  /** The namespace would have more blocks than its quota allows. */
  OVER_QUOTA(Native.KVC_ERROR_OVER_QUOTA),
  /** Another request computes the next tokens of the prompt: admit again in the next steps. */
  FILLING(Native.KVC_ERROR_FILLING),
  /** This manager can never hold it: end the request. */
  NEVER_FITS(Native.KVC_ERROR_NEVER_FITS);

  /** Its number in C, as in {@link Step#status} and {@link KvCacheException#status}. */
  public final int code;

  Status(int code) {
    this.code = code;
  }

  private static final Status[] ALL = values();

  /** The status with this number. */
  public static Status of(int code) {
    for (Status status : ALL) {
      if (status.code == code) {
        return status;
      }
    }
    throw Sizes.invalid("%d is not a status of this version", code);
  }
}
