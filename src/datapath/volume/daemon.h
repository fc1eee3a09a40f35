// The process that does a volume's work. Internal.
// Threads: its main one waits for signals; the engine's; the metadata workers.
#pragma once

#include "datapath/volume/supervisor.h"
#include "datapath/volume/volume.h"

namespace weir::volume {

// Serves until the connection ends or a signal asks for the end: SIGUSR1 hands over to a successor,
// SIGTERM finishes what was accepted. Returns how the daemon ends (kDaemon...).
[[nodiscard]] int RunDaemon(const VolumeOptions& options, int directory_fd,
                            const DaemonStart& start);

// Entries of each queue of FUSE over io_uring, so that `outstanding` are visible in all, and most
// of them where all come from one CPU.
[[nodiscard]] uint32_t EntriesAQueue(uint32_t queues, uint32_t outstanding);
// CPUs that the kernel may ever have: it makes a queue for each.
[[nodiscard]] uint32_t PossibleCpus();

}  // namespace weir::volume
