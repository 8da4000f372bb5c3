// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.IntBuffer;
import java.nio.LongBuffer;

/**
 * What a verification of drafts says: kvc_verdict.
 *
 * @param path [nodes] the accepted nodes of request r from its offset on, then -1
 * @param numAccepted [requests] how many of them
 * @param nextTokens [requests] the model's token after the accepted ones
 */
public record Verdict(IntBuffer path, LongBuffer numAccepted, IntBuffer nextTokens) {
  /** Returns the tokens that a request gains: those of its accepted nodes, and the next one. */
  public int[] tokens(Drafts drafts, int request) {
    int begin = drafts.first(request), accepted = (int) numAccepted.get(request);
    int[] gained = new int[accepted + 1];
    for (int i = 0; i < accepted; ++i) {
      gained[i] = drafts.token(begin + path.get(begin + i));
    }
    gained[accepted] = nextTokens.get(request);
    return gained;
  }
}
