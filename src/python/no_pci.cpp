// Stubs of libpciaccess, to which this package's copy of hwloc is not linked; they report that there are no PCI
// devices. hwloc calls these functions only to detect I/O devices, which nearfield never requests; but LD_BIND_NOW
// resolves all symbols at load time. The module is loaded with RTLD_LOCAL, so no other library sees the stubs.
#include <initializer_list>

#define NO_PCI extern "C" __attribute__((visibility("default")))

NO_PCI int pci_system_init() { return -1; }
NO_PCI void pci_system_cleanup() {}
NO_PCI void* pci_slot_match_iterator_create(const void*) { return nullptr; }
NO_PCI void pci_iterator_destroy(void*) {}
NO_PCI void* pci_device_next(void*) { return nullptr; }
NO_PCI int pci_device_probe(void*) { return -1; }
NO_PCI int pci_device_cfg_read(void*, void*, unsigned long, unsigned long, unsigned long*) { return -1; }
NO_PCI void pci_get_strings(const void*, const char** device, const char** vendor, const char** subdevice,
                            const char** subvendor) {
  for (const char** name : {device, vendor, subdevice, subvendor})
    if (name != nullptr) *name = nullptr;
}
