// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.Arrays;

/** Options of a request; see kvc_request_config. */
public final class RequestOptions extends RequestOptionsCalls {
  private final kvc_request_config config = new kvc_request_config();
  private long namespace;
  private ByteBuffer keys;

  /** Flags of a request: KVC_REQUEST_*. */
  public static final int NO_READ = Native.KVC_REQUEST_NO_READ,
      NO_WRITE = Native.KVC_REQUEST_NO_WRITE,
      FULL_MUST_FIT = Native.KVC_REQUEST_FULL_MUST_FIT,
      RESUMED = Native.KVC_REQUEST_RESUMED,
      PUBLISH_ENQUEUED = Native.KVC_REQUEST_PUBLISH_ENQUEUED,
      SHARE_FILLING = Native.KVC_REQUEST_SHARE_FILLING;

  /** All defaults. */
  public RequestOptions() {
    kvc_request_config owned = config;
    Manager.CLEANER.register(this, owned::delete);
  }

  /** Namespace, from {@link Manager#openNamespace}; 0 = the default one. */
  public RequestOptions namespace(long id) {
    namespace = id;
    return this;
  }

  /** Tokens after the hit that get blocks at admission (chunked prefill); 0 = all. */
  public RequestOptions slots(long tokens) {
    config.setSlots(Sizes.count("slots", tokens));
    return this;
  }

  /** Slots reserved past the known tokens (speculative decoding). */
  public RequestOptions lookahead(long tokens) {
    config.setLookahead(Sizes.count("lookahead", tokens));
    return this;
  }

  /** Upper bound of the hit; 0 = all tokens but one. */
  public RequestOptions maxCachedTokens(long tokens) {
    config.setMax_cached_tokens(Sizes.count("maxCachedTokens", tokens));
    return this;
  }

  /** Tokens after the hit that a transfer will fill. */
  public RequestOptions externalTokens(long tokens) {
    config.setExternal_tokens(Sizes.count("externalTokens", tokens));
    return this;
  }

  /** Blocks to drop from the end of the hit. */
  public RequestOptions dropTailBlocks(int blocks) {
    config.setDrop_tail_blocks(Sizes.count("dropTailBlocks", blocks));
    return this;
  }

  /** Until then the request is not admitted (FILLING) while another one computes its next tokens; 0 = it computes them too. */
  public RequestOptions waitUntilNs(long time) {
    config.setWait_until_ns(Sizes.count("waitUntilNs", time));
    return this;
  }

  /** Room for the tokens to come; appends within it never lack a block. Needs {@link Config#headroom}. */
  public RequestOptions headroom(Headroom room) {
    config.setHeadroom(room.ordinal());
    return this;
  }

  /** Tokens of the request's encoder, in cross groups ({@link Config.Group#cross}); 0 = none. They are private: the request shares nothing. */
  public RequestOptions crossTokens(long tokens) {
    config.setCross_tokens(Sizes.count("crossTokens", tokens));
    return this;
  }

  /** The same with the digest of the encoder's input (32 bytes): requests with equal ones share. All zero = private. */
  public RequestOptions crossTokens(long tokens, byte[] digest) {
    if (digest.length != 32) {
      throw new IllegalArgumentException("the digest of an encoder's input has " + digest.length + " bytes; it needs 32");
    }
    LongBuffer words = ByteBuffer.wrap(digest).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
    config.set_cross_digest(words.get(0), words.get(1), words.get(2), words.get(3));
    return crossTokens(tokens);
  }

  /** Flags of this class, combined by or. */
  public RequestOptions flags(int flags) {
    config.setFlags(flags);
    return this;
  }

  /** Extra keys, in any order, at most 16 over a token. */
  public RequestOptions keys(ExtraKey... list) {
    keys = ExtraKey.pack(list);
    return this;
  }

  static kvc_request_config config(RequestOptions options) {
    return options == null ? null : options.config;
  }

  static long namespace(RequestOptions options) {
    return options == null ? 0 : options.namespace;
  }

  static ByteBuffer keys(RequestOptions options) {
    return options == null ? null : options.keys;
  }

  /**
   * Identity of a span of tokens that their ids alone do not identify, such as the placeholder tokens of an image.
   *
   * @param firstToken position of the span's first token
   * @param numTokens its length
   * @param digest 32 bytes
   */
  public record ExtraKey(long firstToken, long numTokens, byte[] digest) {
    static final int BYTES = 48;

    /** Refuses negative numbers. */
    public ExtraKey {
      Sizes.count("firstToken", firstToken);
      Sizes.count("numTokens", numTokens);
    }

    static ByteBuffer pack(ExtraKey... keys) {
      ByteBuffer packed = Buffers.bytes(BYTES * keys.length);
      for (ExtraKey key : keys) {
        if (key.digest.length != 32) {
          throw new IllegalArgumentException("the digest of an extra key has " + key.digest.length + " bytes; it needs 32");
        }
        packed.putLong(key.firstToken).putLong(key.numTokens).put(key.digest);
      }
      return packed.flip();
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof ExtraKey key && key.firstToken == firstToken && key.numTokens == numTokens && Arrays.equals(key.digest, digest);
    }

    @Override
    public int hashCode() {
      return Arrays.hashCode(digest);
    }
  }
}
