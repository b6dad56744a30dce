// WeightFolder: the weights of a folder in Hugging Face's layout, of which each rank reads what it
// keeps; or the adapters of one in peft's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/initialize.h"
#include "engine/model/safetensors_file.h"
#include "trace/base/status.h"

namespace shardscope::model {

// Threads: const after Open(); any number at once.
class WeightFolder final : public ParameterSource {
 public:
  // model.safetensors, or the files of model.safetensors.index.json: all parameters of `config`
  // are there, once, with its shapes and in F64, F32, F16 or BF16, and no tensor beside them that
  // transformers would use.
  static Result<std::shared_ptr<const WeightFolder>> Open(const std::string& folder,
                                                          const ModelConfig& config);

  // adapter_model.safetensors of a folder that peft has written, in the same way: the adapters of
  // `config`, and nothing else.
  static Result<std::shared_ptr<const WeightFolder>> OpenAdapters(const std::string& folder,
                                                                  const ModelConfig& config);

  // Throws where an element is no finite number: it names file, tensor and element.
  void Read(const plan::Parameter& parameter, int64_t first,
            const at::Tensor& values) const override;
  void WillRead(const plan::Parameter& parameter, int64_t first, int64_t count) const override;
  void HasRead(const plan::Parameter& parameter, int64_t first, int64_t count) const override;

 private:
  struct Place {
    const SafetensorsFile* file = nullptr;
    SafetensorsFile::Entry entry;
  };

  Status OpenFiles(const std::string& folder);
  Status OpenIndex(const std::string& folder, const std::string& index_path);
  Status AddFile(const std::string& path);
  Status Check(const std::string& folder, const ModelConfig& config, bool of_adapters) const;
  const Place& PlaceOf(const plan::Parameter& parameter) const;

  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, Place> places_;  // by the name that transformers has
};

}  // namespace shardscope::model
