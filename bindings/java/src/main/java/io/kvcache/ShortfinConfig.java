// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * What the config.json that sharktank exports for Shortfin says: kvc_config_from_shortfin. A block id of the manager means the same page in the storage
 * of every device. Each device has some of the layers, in ascending order.
 *
 * @param manager one for all devices
 * @param storages one for each device
 */
public record ShortfinConfig(Config manager, List<StorageConfig> storages) {
  /** Reads the text of the file. The message of a failure names the field, its value and the fix. */
  public static ShortfinConfig read(String json) throws KvCacheException {
    ByteBuffer text = Buffers.copy(json.getBytes(StandardCharsets.UTF_8));
    List<StorageConfig> storages = new ArrayList<>();
    try (kvc_manager_config m = new kvc_manager_config(); kvc_storage_config s = new kvc_storage_config()) {
      for (long[] devices = {1}; storages.size() < devices[0];) {
        Native.kvc_config_from_shortfin(text, storages.size(), m, s, devices);
        storages.add(new StorageConfig(s.getNum_blocks(), s.getNum_layers(), s.getNum_heads(), s.getHead_dim()).blockSize(s.getBlock_size())
            .dtype(DType.of(s.getDtype())).layout(s.getLayout()));
      }
      return new ShortfinConfig(
          new Config().numBlocks(m.getNum_blocks()).blockSize(m.getBlock_size()).maxRequestTokens(m.getMax_request_tokens()), List.copyOf(storages));
    }
  }
}
