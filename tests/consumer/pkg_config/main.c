/* SPDX-License-Identifier: Apache-2.0
   A program outside the tree: main <version> [backend...]. It fails unless the header, the library it runs
   with and the package that it was found by agree, and the backends are parts of that library. */
#include <kvcache.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  char header[64];
  snprintf(header, sizeof header, "%d.%d.%d", KVC_VERSION_MAJOR, KVC_VERSION_MINOR, KVC_VERSION_PATCH);
  if (argc < 2 || strcmp(argv[1], header) != 0) {
    fprintf(stderr, "the header is %s, the package %s\n", header, argc >= 2 ? argv[1] : "not given");
    return 1;
  }
  if (kvc_version() != KVC_VERSION_MAJOR * 10000 + KVC_VERSION_MINOR * 100 + KVC_VERSION_PATCH) {
    fprintf(stderr, "the header is %s, the library has the number %lu\n", header,
            (unsigned long)kvc_version());
    return 1;
  }
  const kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = 8};
  kvc_manager* manager = NULL;
  if (kvc_manager_create(&config, &manager) != KVC_OK) {
    fprintf(stderr, "no manager: %s\n", kvc_last_error());
    return 1;
  }
  kvc_manager_destroy(manager);
  for (int i = 2; i < argc; ++i) {
    kvc_backend_info info = {.struct_size = sizeof info};
    if (kvc_backend_properties(argv[i], &info) != KVC_OK || info.path[0] != '\0') {
      fprintf(stderr, "backend %s is not a part of the library: %s\n", argv[i], kvc_last_error());
      return 1;
    }
    if (info.num_devices == 0 && info.remark[0] == '\0') {
      fprintf(stderr, "backend %s has no device and does not say why\n", argv[i]);
      return 1;
    }
    printf("%s, %s: %u devices %s\n", argv[i], info.architectures, (unsigned)info.num_devices, info.remark);
  }
  return 0;
}
