// SPDX-License-Identifier: MIT
// The table of methods. Explicit rows: objects that register themselves vanish from a static library.
#include "policy/list.h"

#include <algorithm>
#include <set>

#include "base/errors.h"
#include "base/printable.h"
#include "policy/methods.h"
#include "policy/params.h"
#include "policy/pyramid.h"
#include "policy/tier.h"

namespace kvase {
namespace {

constexpr PolicyInfo (*kMethods[])() = {
    full_info,       window_info,   streaming_llm_info, random_info,    snapkv_info,
    vase_attnv_info, vase_dkv_info, curdkv_info,        cur_norms_info, evict_large_info,
    knorm_info,      keydiff_info,  lagkv_info,         rkv_info,       rkv_vase_info,
    cur_exact_info,  leverage_info, h2o_info,           tova_info,
};

std::vector<PolicyInfo>& registered() {
  static std::vector<PolicyInfo> infos;
  return infos;
}

// Names appear in policy strings, so they cannot contain the characters that the grammar uses.
bool well_formed(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' && std::ranges::all_of(name, allowed);
}

void check_param(const std::string& method, const ParamInfo& param) {
  if (!well_formed(param.name)) {
    invalid("{}: option name \"{}\", allowed: a-z, 0-9, - and _, a letter first", method,
            printable(param.name));
  }
  if (std::ranges::find(kShapeKeys, param.name) != kShapeKeys.end()) {
    invalid("{}: option name \"{}\" is taken, allowed: any but {}", method, param.name,
            fmt::join(kShapeKeys, ", "));
  }
  if (!param.default_value.empty()) checked_value(method, param, param.default_value);
}

}  // namespace

std::vector<PolicyInfo> list_policies() {
  std::vector<PolicyInfo> infos;
  for (const auto& info : kMethods) infos.push_back(info());
  infos.insert(infos.end(), registered().begin(), registered().end());
  return infos;
}

std::vector<ModifierInfo> list_modifiers() { return {pyramid_info(), zero_info(), vector_info()}; }

ModifierInfo find_modifier(std::string_view name) {
  std::vector<std::string> names;
  for (ModifierInfo& info : list_modifiers()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  invalid("policy: unknown modifier \"{}\", allowed: {}", printable(name), fmt::join(names, ", "));
}

void register_policy(PolicyInfo info) {
  if (!well_formed(info.name)) {
    invalid("policy: name \"{}\", allowed: a-z, 0-9, - and _, a letter first", printable(info.name));
  }
  const std::vector<PolicyInfo> infos = list_policies();
  if (std::ranges::find(infos, info.name, &PolicyInfo::name) != infos.end()) {
    invalid("policy: name \"{}\" is taken, allowed: a new one", info.name);
  }
  if (!info.make) invalid("{}: no make function, allowed: a function that makes the policy", info.name);
  std::set<std::string> names;
  for (const ParamInfo& param : info.params) {
    check_param(info.name, param);
    if (!names.insert(param.name).second) {
      invalid("{}: option \"{}\" declared twice, allowed: once", info.name, param.name);
    }
  }
  registered().push_back(std::move(info));
}

PolicyInfo find_policy(std::string_view name) {
  std::vector<std::string> names;
  for (PolicyInfo& info : list_policies()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  invalid("policy: unknown method \"{}\", allowed: {}", printable(name), fmt::join(names, ", "));
}

}  // namespace kvase
