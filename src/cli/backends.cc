// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: add keys, do not rename them.
#include "cli/backends.h"

#include <kvcache/device.h>

#include <iomanip>
#include <nlohmann/json.hpp>

#include "cli/library.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;

struct MemoryKind {
  const char* name;
  uint32_t kind;
};
constexpr MemoryKind kMemoryKinds[] = {{"host", KVC_MEMORY_HOST},
                                       {"host_huge", KVC_MEMORY_HOST_HUGE},
                                       {"pinned", KVC_MEMORY_PINNED},
                                       {"device", KVC_MEMORY_DEVICE},
                                       {"external", KVC_MEMORY_EXTERNAL}};

Json device_info(const std::string& device) {
  auto info = make<kvc_device_info>();
  Json json;
  json["device"] = device;
  if (kvc_device_read_info(device.c_str(), &info) != KVC_OK) {
    json["error"] = kvc_last_error();
    return json;
  }
  json["name"] = info.name;
  json["architecture"] = info.architecture;
  json["memory_bytes"] = info.memory_bytes;
  json["free_bytes"] = info.free_bytes;
  json["processors"] = info.num_processors;
  json["dlpack_device"] = info.dlpack_device;
  json["memory_kinds"] = Json::array();
  for (const MemoryKind& kind : kMemoryKinds) {
    if ((info.memory_kinds >> kind.kind & 1) != 0) json["memory_kinds"].push_back(kind.name);
  }
  json["reads_host_memory"] = (info.flags & KVC_DEVICE_READS_HOST) != 0;
  json["managed_memory"] = (info.flags & KVC_DEVICE_MANAGED) != 0;
  json["swap_out_kernel_bytes"] = info.swap_out_kernel_bytes;
  json["swap_in_kernel_bytes"] = info.swap_in_kernel_bytes;
  json["swap_measured"] = (info.flags & KVC_DEVICE_SWAP_MEASURED) != 0;
  return json;
}

Json backend_info(const std::string& name) {
  auto info = make<kvc_backend_info>();
  Json json;
  json["name"] = name;
  const kvc_status status = kvc_backend_properties(name.c_str(), &info);
  json["installed"] = status != KVC_ERROR_NOT_FOUND;
  if (status != KVC_OK) {
    json["remark"] = kvc_last_error();
    return json;
  }
  json["path"] = info.path;
  json["architectures"] = info.architectures;
  json["remark"] = info.remark;
  json["devices"] = Json::array();
  for (uint32_t i = 0; i < info.num_devices; ++i)
    json["devices"].push_back(device_info(name == "cpu" ? name : name + ":" + std::to_string(i)));
  return json;
}

/// How contiguous bytes are swapped between a device and the host.
std::string swap_way(uint64_t kernel_bytes) {
  if (kernel_bytes == 0) return "by the copy engine";
  if (kernel_bytes == UINT64_MAX) return "by a kernel";
  return "by a kernel for runs below " + std::to_string(kernel_bytes) + " bytes";
}

void print_device(const Json& device, std::ostream& out) {
  const std::string indent(22, ' ');
  out << "    " << std::setw(18) << device["device"].get<std::string>();
  if (device.contains("error")) {
    out << device["error"].get<std::string>() << '\n';
    return;
  }
  const std::string name = device["name"], architecture = device["architecture"];
  out << (name.empty() ? "" : name + ", ") << (architecture.empty() ? "" : architecture + ", ")
      << device["memory_bytes"].get<uint64_t>() / (1 << 20) << " MiB, "
      << device["processors"].get<uint32_t>() << " processors\n"
      << indent << "storages in";
  for (const char* between = " "; const Json& kind : device["memory_kinds"]) {
    out << between << kind.get<std::string>();
    between = ", ";
  }
  out << " memory" << (device["reads_host_memory"].get<bool>() ? "; reads any host memory" : "")
      << (device["managed_memory"].get<bool>() ? "; has managed memory" : "") << '\n';
  if (device["device"] == "cpu") return;  // whose swaps are plain copies
  out << indent << "swaps out " << swap_way(device["swap_out_kernel_bytes"]) << ", in "
      << swap_way(device["swap_in_kernel_bytes"])
      << (device["swap_measured"].get<bool>() ? " (measured)" : " (estimated; the first swap measures)")
      << '\n';
}

}  // namespace

Json backends_info(const std::vector<std::string>& more) {
  Json json = Json::array();
  for (const char* name : {"cpu", "cuda", "hip"}) json.push_back(backend_info(name));
  for (const std::string& name : more) json.push_back(backend_info(name));
  return json;
}

void print_backends(const Json& backends, std::ostream& out) {
  out << "\nBackends\n";
  for (const Json& backend : backends) {
    const std::string architectures = backend.value("architectures", ""), remark = backend["remark"];
    out << "  " << std::left << std::setw(20) << backend["name"].get<std::string>()
        << (backend["installed"].get<bool>() ? "installed" : "not installed")
        << (architectures.empty() ? "" : ", kernels for " + architectures)
        << (remark.empty() ? "" : "; " + remark) << '\n';
    for (const Json& device : backend.value("devices", Json::array())) print_device(device, out);
  }
}

}  // namespace kvcli
