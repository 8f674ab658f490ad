import { useQuery } from '@tanstack/vue-query';
import { listModels, listPools, listRequests, listTenants } from './calls';
import { keys } from './keys';

// Queries that more than one view needs; a view's own are in its queries.ts.

export const useRequests = () =>
  useQuery({ queryKey: keys.requests, queryFn: ({ signal }) => listRequests(signal) });

export const useModels = () =>
  useQuery({ queryKey: keys.models, queryFn: ({ signal }) => listModels(signal) });

export const useTenants = () =>
  useQuery({ queryKey: keys.tenants, queryFn: ({ signal }) => listTenants(signal) });

export const usePools = () =>
  useQuery({ queryKey: keys.pools, queryFn: ({ signal }) => listPools(signal) });
