// SPDX-License-Identifier: MIT
// The table row of every method in this folder. One method, one file, one line here and one in list.cpp.
#pragma once

#include "kvase/policy.h"

namespace kvase {

PolicyInfo full_info();
PolicyInfo window_info();
PolicyInfo streaming_llm_info();
PolicyInfo random_info();
PolicyInfo snapkv_info();
PolicyInfo vase_attnv_info();
PolicyInfo vase_dkv_info();
PolicyInfo curdkv_info();
PolicyInfo cur_norms_info();
PolicyInfo evict_large_info();
PolicyInfo knorm_info();
PolicyInfo keydiff_info();
PolicyInfo lagkv_info();
PolicyInfo rkv_info();
PolicyInfo rkv_vase_info();
PolicyInfo cur_exact_info();
PolicyInfo leverage_info();
PolicyInfo h2o_info();
PolicyInfo tova_info();

}  // namespace kvase
