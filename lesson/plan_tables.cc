#include "lesson/plan_tables.h"

#include <string>
#include <string_view>
#include <vector>

#include "engine/footprint/footprint.h"
#include "engine/plan/model_description.h"

namespace shardscope::lesson {
namespace {

constexpr const char* kTables =
    "CREATE TABLE plan_op (op INTEGER, name TEXT, kind TEXT, category TEXT, phase TEXT,"
    " micro_batch INTEGER, unit TEXT, segment TEXT, stream TEXT, communicator TEXT, dtype TEXT,"
    " payload_bytes INTEGER, wire_bytes INTEGER);"
    "CREATE TABLE plan_buffer (kind TEXT, category TEXT, unit TEXT, segment TEXT, bytes INTEGER,"
    " persistent INTEGER);"
    "CREATE TABLE plan_unit (name TEXT, elements INTEGER);"
    "CREATE TABLE plan (num_ranks INTEGER, elements INTEGER, predicted_peak_bytes INTEGER,"
    " executed_peak_bytes INTEGER)";

template <typename Named>
std::string_view NameAt(const std::vector<Named>& all, int32_t index) {
  return index == plan::kNone ? std::string_view() : all[static_cast<size_t>(index)].name;
}

Status AddOps(const plan::Schedule& schedule, store::Database* database) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      store::Statement insert,
      database->Prepare("INSERT INTO plan_op VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  int64_t index = 0;
  for (const plan::Op& op : schedule.ProgramOf(0).ops) {
    const bool meets = op.communicator != plan::kNone;
    const std::string name = plan::OpName(schedule, op);
    insert.Bind(1, index++);
    insert.Bind(2, std::string_view(name));
    insert.Bind(3, plan::Name(op.kind));
    insert.Bind(4, plan::Name(plan::CategoryOf(op.kind)));
    insert.Bind(5, plan::Name(op.phase));
    insert.Bind(6, int64_t{op.micro_batch});
    insert.Bind(7, NameAt(schedule.units, op.unit));
    insert.Bind(8, NameAt(schedule.segments, op.segment));
    insert.Bind(9, NameAt(schedule.streams, op.stream));
    insert.Bind(10, NameAt(schedule.communicators, op.communicator));
    insert.Bind(11, meets ? plan::Name(op.dtype) : std::string_view());
    insert.Bind(12, op.payload_bytes);
    insert.Bind(13, op.wire_bytes);
    SHARDSCOPE_RETURN_IF_ERROR(insert.Run());
  }
  return Status::Ok();
}

Status AddBuffers(const plan::Schedule& schedule, store::Database* database) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Statement insert,
                              database->Prepare("INSERT INTO plan_buffer VALUES (?,?,?,?,?,?)"));
  for (const plan::Buffer& buffer : schedule.ProgramOf(0).buffers) {
    if (buffer.slot != plan::kNone) continue;  // it takes no memory of its own
    insert.Bind(1, plan::Name(buffer.kind));
    insert.Bind(2, plan::Name(plan::MemoryCategoryOf(buffer.kind)));
    insert.Bind(3, NameAt(schedule.units, buffer.unit));
    insert.Bind(4, NameAt(schedule.segments, buffer.segment));
    insert.Bind(5, buffer.bytes);
    insert.Bind(6, int64_t{buffer.persistent});
    SHARDSCOPE_RETURN_IF_ERROR(insert.Run());
  }
  return Status::Ok();
}

Status AddModel(const footprint::Footprint& footprint, store::Database* database) {
  const plan::Schedule& schedule = footprint.schedule;
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Statement insert,
                              database->Prepare("INSERT INTO plan_unit VALUES (?,?)"));
  int64_t elements = 0;
  for (const plan::Unit& unit : schedule.units) {
    insert.Bind(1, std::string_view(unit.name));
    insert.Bind(2, plan::UnitElements(unit));
    SHARDSCOPE_RETURN_IF_ERROR(insert.Run());
    elements += plan::UnitElements(unit);
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Statement plan_row,
                              database->Prepare("INSERT INTO plan VALUES (?,?,?,?)"));
  plan_row.Bind(1, int64_t{schedule.num_ranks()});
  plan_row.Bind(2, elements);
  plan_row.Bind(3, footprint.issued_bytes);
  plan_row.Bind(4, footprint.needed_bytes());
  return plan_row.Run();
}

}  // namespace

Result<store::Database> PlanTables(const config::Config& config) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint footprint, footprint::FootprintOf(config));
  const plan::Schedule& schedule = footprint.schedule;
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Database database, store::Database::OpenInMemory());
  SHARDSCOPE_RETURN_IF_ERROR(database.Execute(kTables));
  SHARDSCOPE_RETURN_IF_ERROR(AddOps(schedule, &database));
  SHARDSCOPE_RETURN_IF_ERROR(AddBuffers(schedule, &database));
  SHARDSCOPE_RETURN_IF_ERROR(AddModel(footprint, &database));
  database.Seal();
  return database;
}

}  // namespace shardscope::lesson
