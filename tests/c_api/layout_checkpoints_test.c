/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs and the values of the constants of checkpoints and of files of tiers. See
 * layout.h. */
#include <kvcache/checkpoint.h>
#include <kvcache/inspect.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_checkpoint_config, 80);
AT(kvc_checkpoint_config, struct_size, 0);
AT(kvc_checkpoint_config, folder, 8);
AT(kvc_checkpoint_config, pages, 16);
AT(kvc_checkpoint_config, codec, 24);
AT(kvc_checkpoint_config, id, 32);
AT(kvc_checkpoint_config, level, 40);
AT(kvc_checkpoint_config, flags, 44);
AT(kvc_checkpoint_config, keep_last, 48);
AT(kvc_checkpoint_config, reserved, 52);
AT(kvc_checkpoint_config, interval_ns, 56);
AT(kvc_checkpoint_config, last_ns, 64);
AT(kvc_checkpoint_config, now_ns, 72);

SIZE(kvc_checkpoint_info, 344);
AT(kvc_checkpoint_info, struct_size, 0);
AT(kvc_checkpoint_info, id, 8);
AT(kvc_checkpoint_info, num_files, 16);
AT(kvc_checkpoint_info, file_bytes, 24);
AT(kvc_checkpoint_info, written_bytes, 32);
AT(kvc_checkpoint_info, page_bytes, 40);
AT(kvc_checkpoint_info, stored_bytes, 48);
AT(kvc_checkpoint_info, num_pages, 56);
AT(kvc_checkpoint_info, new_pages, 64);
AT(kvc_checkpoint_info, num_blocks, 72);
AT(kvc_checkpoint_info, num_positions, 80);
AT(kvc_checkpoint_info, num_namespaces, 88);
AT(kvc_checkpoint_info, num_requests, 96);
AT(kvc_checkpoint_info, lost_blocks, 104);
AT(kvc_checkpoint_info, left_out, 112);
AT(kvc_checkpoint_info, not_removed, 120);
AT(kvc_checkpoint_info, version, 128);
AT(kvc_checkpoint_info, block_size, 132);
AT(kvc_checkpoint_info, num_groups, 136);
AT(kvc_checkpoint_info, ids_kept, 140);
AT(kvc_checkpoint_info, content, 144);
AT(kvc_checkpoint_info, codec, 176);
AT(kvc_checkpoint_info, model, 192);
AT(kvc_checkpoint_info, weights, 256);
AT(kvc_checkpoint_info, resumed_pages, 320);
AT(kvc_checkpoint_info, longest_hold, 328);
AT(kvc_checkpoint_info, longest_admission, 336);

SIZE(kvc_checkpoint_needs, 48);
AT(kvc_checkpoint_needs, struct_size, 0);
AT(kvc_checkpoint_needs, num_pages, 8);
AT(kvc_checkpoint_needs, new_pages, 16);
AT(kvc_checkpoint_needs, new_bytes, 24);
AT(kvc_checkpoint_needs, full_bytes, 32);
AT(kvc_checkpoint_needs, free_bytes, 40);

SIZE(kvc_request_pair, 32);
AT(kvc_request_pair, old_id, 0);
AT(kvc_request_pair, new_id, 8);
AT(kvc_request_pair, num_tokens, 16);
AT(kvc_request_pair, num_committed, 24);

VALUE(KVC_CHECKPOINT_FULL, 1);
VALUE(KVC_CHECKPOINT_INCREMENT, 2);
VALUE(KVC_CHECKPOINT_REQUESTS, 4);
VALUE(KVC_CHECKPOINT_NO_SYNC, 8);
VALUE(KVC_CHECKPOINT_BYTES_ELSEWHERE, 16);

SIZE(kvc_page_file_info, 1160);
AT(kvc_page_file_info, struct_size, 0);
AT(kvc_page_file_info, kind, 8);
AT(kvc_page_file_info, version, 12);
AT(kvc_page_file_info, fingerprint, 16);
AT(kvc_page_file_info, key, 48);
AT(kvc_page_file_info, file_bytes, 80);
AT(kvc_page_file_info, page_bytes, 88);
AT(kvc_page_file_info, num_slots, 96);
AT(kvc_page_file_info, num_pages, 104);
AT(kvc_page_file_info, stored_bytes, 112);
AT(kvc_page_file_info, bad_headers, 120);
AT(kvc_page_file_info, bad_pages, 128);
AT(kvc_page_file_info, description, 136);

VALUE(KVC_PAGE_FILE_SLAB, 1);
VALUE(KVC_PAGE_FILE_PAGE, 2);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
