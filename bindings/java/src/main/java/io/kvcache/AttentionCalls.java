// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Attention} has that follows from the C headers. Written by scripts/generate. */
public abstract class AttentionCalls {
  AttentionCalls() {}

  /**
   * How Storage.attend would run a call: kvc_attention_info.
   *
   * @param kernels GPU: "mma" (tensor cores) or "plain". CPU: the instruction set, "amx", "avx512-bf16", "avx512", "avx2" or "scalar". The
   *     environment variable KVC_KERNELS, read once, is an upper limit.
   * @param keys How the kernels read keys: "tiles", "rows", or "converted" to float32 first.
   * @param values The same for values; "keys" = latent rows that are read once for both.
   * @param numWorkers Threads or multiprocessors that take part.
   * @param sparse true = a block mask hides some blocks.
   * @param numPieces Units of work (a request, some KV heads, some queries); 0 = decided on the device.
   * @param numSplits Parts of the context after splitting the units, at least numPieces; 0 = decided on the device.
   * @param scratchBytes Memory that the call takes and the storage keeps for the next one; less with kvc_attention_launch.plan.
   * @param sharedTokens kvc_attention.sharedTokens if they are read once for all requests; else 0 (docs/GPU.md).
   * @param planBytes Least kvc_attention_launch.planBytes. Smaller bounds never need more. 0 on the CPU.
   * @param workspaceBytes Least kvc_attention_launch.workspaceBytes. Smaller bounds never need more. 0 on the CPU.
   * @param selectionBytes The same for Storage.selectBlocks with this kvc_attention.
   */
  public record Info(String kernels, String keys, String values, int numWorkers, boolean sparse, long numPieces, long numSplits,
      long scratchBytes, long sharedTokens, long planBytes, long workspaceBytes, long selectionBytes) {
    static Info read(kvc_attention_info i) {
      return new Info(i.getKernels(), i.getKeys(), i.getValues(), (int) i.getNum_workers(), i.getSparse() != 0, i.getNum_pieces(),
          i.getNum_splits(), i.getScratch_bytes(), i.getShared_tokens(), i.getPlan_bytes(), i.getWorkspace_bytes(), i.getSelection_bytes());
    }
  }
}
