// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/**
 * Result of a call, or of one item of a step. An engine handles OK, NO_SPACE, AGAIN, OVER_QUOTA, NEVER_FITS, FILLING and SKIPPED; any other is a
 * bug in it. Written by scripts/generate.
 */
public enum Status {
  /** Success. */
  OK(Native.KVC_OK),
  /** An argument is out of range, or contradicts another one or the state. */
  INVALID_ARGUMENT(Native.KVC_ERROR_INVALID_ARGUMENT),
  /** The allocator returned NULL. */
  OUT_OF_MEMORY(Native.KVC_ERROR_OUT_OF_MEMORY),
  /** Too few blocks are free or evictable. */
  NO_SPACE(Native.KVC_ERROR_NO_SPACE),
  /** What is named does not exist: a request, pin, namespace, preset, device, plane or memory; or it belongs to another manager. */
  NOT_FOUND(Native.KVC_ERROR_NOT_FOUND),
  /** The object is in use, or in the wrong state for this call. */
  BUSY(Native.KVC_ERROR_BUSY),
  /** A limit is reached, such as maxRequests. */
  LIMIT(Native.KVC_ERROR_LIMIT),
  /** An output array is too short. The required count is written where there is a count. */
  BUFFER_TOO_SMALL(Native.KVC_ERROR_BUFFER_TOO_SMALL),
  /** The call is valid, but this build, device or state cannot do it. */
  UNSUPPORTED(Native.KVC_ERROR_UNSUPPORTED),
  /** The block has no external hold to release. */
  NOT_HELD(Native.KVC_ERROR_NOT_HELD),
  /** Manager.check found a broken invariant: a bug in the library, or corrupted memory. */
  CORRUPT(Native.KVC_ERROR_CORRUPT),
  /** A bug in the library. */
  INTERNAL(Native.KVC_ERROR_INTERNAL),
  /** There is no space now. There will be when the steps in flight are retired. */
  AGAIN(Native.KVC_ERROR_AGAIN),
  /**
   * Of a step's item or a batch's: not tried, because an earlier admission (with quotas, one of the same share) had no space; or it fits, and all
   * or none were to be admitted.
   */
  SKIPPED(Native.KVC_ERROR_SKIPPED),
  /** The device failed. The text has the message of its runtime. The outputs may be partly written. Once a device is lost, every call on it fails. */
  DEVICE(Native.KVC_ERROR_DEVICE),
  /** The namespace would hold more blocks than the maximum of its quota. Only its own requests, pins and external holds can make room. */
  OVER_QUOTA(Native.KVC_ERROR_OVER_QUOTA),
  /** Another request computes the next tokens of the prompt, and this one waits for them: admit it again in the next steps (kvcache/fills.h). */
  FILLING(Native.KVC_ERROR_FILLING),
  /**
   * This manager can never hold it: end the request. Waiting does not help; only a larger pool, another quota, the last close of a namespace whose
   * quota has a minimum, or asking for less does.
   */
  NEVER_FITS(Native.KVC_ERROR_NEVER_FITS);

  /** Its number in C. */
  public final int code;

  Status(int code) {
    this.code = code;
  }

  private static final Status[] ALL = values();

  /** Returns the one with this number. */
  public static Status of(int code) {
    for (Status one : ALL) {
      if (one.code == code) {
        return one;
      }
    }
    throw Sizes.invalid("%d is not a Status of this version", code);
  }
}
