// Reads devices, units, plans and groups from the tables of a file; scenarios have them too.
// Internal to the catalog and to the scenario reader.
//
// PURE.
#pragma once

#include "catalog/config.h"
#include "catalog/table_reader.h"

namespace weir::catalog {

// Takes the keys of weir.toml from `root`; other keys are left to the caller, who calls Finish.
void ReadConfigTables(TableReader* root, Config* config, Problems* problems);

// What ParseConfig checks once the tables are read: names, references, values, the whole tree of
// every device. Adds to config->warnings.
void CheckWhole(Config* config, Problems* problems);

}  // namespace weir::catalog
